// Tests that an operator does the most frequent tasks in a real browser, with the keyboard only.
import { expect, onTestFinished, test } from 'vitest'
import { defineJob, Holdfast } from '../../src/index.js'
import { sql, until } from '../setup/facts.js'
import { describeInBrowser, expectAccessible, openBoard, openPage } from './fixture.js'

describeInBrowser('the keyboard', () => {
  test('the palette distinguishes queues with the same name in different namespaces', async () => {
    const board = await openBoard()
    const queues: Record<string, Holdfast> = {}
    for (const namespace of ['blog', 'shop']) {
      const holdfast = await Holdfast.open({ url: board.databaseUrl, namespace })
      onTestFinished(() => holdfast.close())
      await holdfast.jobs.enqueue(defineJob('send', { queue: 'mail', run: () => {} }))
      queues[namespace] = holdfast
    }
    const page = await openPage(board)
    const search = async () => {
      await page.keyboard.press('Control+k')
      await page.getByRole('combobox', { name: /^Page, job number/ }).fill('pause mail')
    }
    await search()
    await page.getByRole('option', { name: 'Pause queue mail in blog' }).waitFor()
    await page.getByRole('option', { name: 'Pause queue mail in shop' }).click()
    const dialog = page.getByRole('dialog', { name: /^Pause queue/ })
    await dialog.getByText('shop', { exact: true }).waitFor()
    await dialog.getByRole('button', { name: 'Pause' }).click()
    await dialog.waitFor({ state: 'detached' })
    const pausedOf = async (namespace: string) => (await queues[namespace]!.jobs.queues())[0]!.pausedAt
    expect([await pausedOf('blog'), await pausedOf('shop')]).toEqual([null, expect.any(Date)])
    // In a chosen namespace, the palette offers only the names of this namespace.
    await page.goto(`${board.url}#/now?namespace=blog`)
    await search()
    await page.getByRole('option', { name: /^Pause queue mail/ }).waitFor()
    expect(await page.getByRole('option', { name: /queue mail/ }).count()).toBe(1)
  })

  test('an operator finds why a job is stuck, retries it, pauses a queue and drains an instance', {
    timeout: 60_000,
  }, async () => {
    const board = await openBoard()
    const url = board.databaseUrl
    await using holdfast = await Holdfast.open({ url, namespace: 'shop', name: 'web-3' })
    const { jobs } = holdfast
    const fail = defineJob<unknown>('charge', {
      queue: 'mail',
      retry: { attempts: 1 },
      run: () => Promise.reject(new TypeError('smtp is away')),
    })
    const worker = jobs.work([fail])
    const failed = await jobs.enqueue(fail, null)
    await until('the job has failed', async () => (await jobs.find(failed.id))?.state === 'buried')
    await worker.close()
    const stuck = await jobs.enqueue(defineJob<unknown>('report', { queue: 'mail', run: () => {} }), null)

    const page = await openPage(board)
    await page.getByRole('heading', { name: 'Queues' }).waitFor()
    let keys = 0
    const press = async (...pressed: readonly string[]) => {
      for (const key of pressed) await page.keyboard.press(key)
      keys += pressed.length
    }
    /** Types into the palette, and waits until the first match is this one. */
    const find = async (text: string, match: string | RegExp) => {
      await press('Control+k')
      await page.getByRole('combobox', { name: /^Page, job number/ }).waitFor()
      await press(...text)
      await page.locator('[role="option"][aria-selected="true"]', { hasText: match }).waitFor()
    }
    /** Confirms the action that is in focus. */
    const confirm = async (title: RegExp) => {
      await press('Enter')
      const dialog = page.getByRole('dialog', { name: title })
      await dialog.getByRole('button', { name: 'Go back' }).and(page.locator(':focus')).waitFor()
      await press('Tab', 'Enter')
      await dialog.waitFor({ state: 'detached' })
    }
    const counted = () => {
      const count = keys
      keys = 0
      return count
    }

    await find(String(stuck.id), `Job ${stuck.id}`)
    await expectAccessible(page)
    await press('Enter')
    await page.getByRole('dialog').getByText('No worker serves its queue').waitFor()
    await press('Escape')
    expect(counted()).toBe(3 + String(stuck.id).length)

    await find(String(failed.id), `Job ${failed.id}`)
    await press('Enter')
    await page.getByRole('dialog').getByText('smtp is away').first().waitFor()
    await press('a')
    await confirm(/^Retry/)
    expect((await jobs.find(failed.id))?.state).toBe('ready')
    await press('Escape')
    expect(counted()).toBe(7 + String(failed.id).length)

    await find('pause mail', 'Pause queue mail')
    await confirm(/^Pause/)
    await page.getByText('paused', { exact: true }).first().waitFor()
    expect(counted()).toBe(14)

    await press('g', 'i')
    await page.getByRole('table', { name: 'Instances' }).waitFor()
    await press('j', 'a')
    await confirm(/^Drain/)
    expect(counted()).toBe(7)
    await until('the instance drains', async () => {
      const [row] = await sql<{ state: string }>(url, 'select state from holdfast.instance where id = $1', [
        holdfast.id,
      ])
      return row!.state !== 'open'
    })

    // From row to row, also while the details of a row are open.
    await press('g', 'j')
    const list = page.getByRole('table', { name: 'Jobs', exact: true })
    await list.locator('tbody tr').nth(1).waitFor()
    await press('j', 'j', 'k', 'Enter')
    const title = page.getByRole('dialog').getByRole('heading', { level: 2 }).first()
    // The heading also changes when the kind of the same job has been read.
    const opened = async () => /^Job \d+/.exec((await title.textContent()) ?? '')![0]
    const first = await opened()
    await press('j')
    await until('the details of the next row are open', async () => (await opened()) !== first)
    await press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    expect(
      await list
        .locator('tbody tr')
        .nth(1)
        .evaluate((row) => row === document.activeElement),
    ).toBe(true)
  })
})
