// Tests the pages of jobs and deliveries in a real browser.
import { expect, test } from 'vitest'
import { defineJob } from '../../src/index.js'
import { gate } from '../jobs/fixture.js'
import { sql, until } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { runsAll } from '../setup/variants.js'
import { describeInBrowser, expectAccessible, openBoard, openPage } from './fixture.js'

const hostile = '<script>alert("x")</script> \u202eevil'

describeInBrowser('jobs and deliveries', () => {
  test('selected jobs stay selected when they leave the page', async () => {
    const board = await openBoard()
    const { jobs } = await open({ url: board.databaseUrl, namespace: 'shop' })
    const idle = defineJob<unknown>('idle', { queue: 'mail', run: () => {} })
    const [first, second, third] = [
      await jobs.enqueue(idle, 1),
      await jobs.enqueue(idle, 2),
      await jobs.enqueue(idle, 3),
    ]
    const page = await openPage(board, { at: `#/jobs?search=${encodeURIComponent('state:ready queue:mail')}` })
    for (const { id } of [first, second]) await page.getByRole('checkbox', { name: `Select ${id}` }).check()
    await page.getByRole('button', { name: 'Cancel selected jobs found' }).click()
    const dialog = page.getByRole('dialog', { name: /^Cancel selected 2 jobs/ })
    await dialog.waitFor()
    await jobs.cancel(first.id)
    await page.getByRole('checkbox', { name: `Select ${first.id}` }).waitFor({ state: 'detached' })
    expect(await dialog.count()).toBe(1)
    await dialog.getByRole('button', { name: 'Go back' }).click()
    await jobs.cancel(second.id)
    await page.getByRole('checkbox', { name: `Select ${second.id}` }).waitFor({ state: 'detached' })
    expect(await page.getByRole('button', { name: 'Cancel all jobs found' }).count()).toBe(0)
    await page.getByRole('button', { name: 'Cancel selected jobs found' }).waitFor()
    await page.getByRole('button', { name: 'Clear selection of 2' }).click()
    await page.getByRole('button', { name: 'Cancel all jobs found' }).waitFor()
    expect((await jobs.find(third.id))?.state).toBe('ready')
  })

  test('names in titles, confirmations and messages show characters that change the direction of the text', async () => {
    const board = await openBoard()
    const { jobs } = await open({ url: board.databaseUrl, namespace: 'shop' })
    const odd = defineJob<unknown>('odd\u202ekind', { queue: 'odd\u202equeue', run: () => {} })
    const { id } = await jobs.enqueue(odd, null)
    const page = await openPage(board, { at: `#/jobs?id=${id}` })
    await page.getByRole('dialog', { name: `Job ${id}: odd\u2066\\u{202e}\u2069kind` }).waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: /^Pause queue odd/ }).click()
    const dialog = page.getByRole('dialog', { name: /^Pause/ })
    await dialog.getByText('.').first().waitFor()
    expect(await dialog.innerText()).not.toContain('\u202e')
    await dialog.getByRole('button', { name: 'Pause' }).click()
    const message = page.getByRole('region', { name: 'Messages' }).locator('p')
    await message.waitFor()
    expect(await message.innerText()).toContain('\\u{202e}')
    expect(await message.innerText()).not.toContain('\u202e')
  })

  test('jobs are found, shown, retried and cancelled, one by one and all together', {
    timeout: 150_000,
  }, async () => {
    const board = await openBoard()
    const url = board.databaseUrl
    const { jobs } = await open({ url, namespace: 'shop' })
    const fail = defineJob<unknown>(hostile, {
      queue: 'mail',
      retry: { attempts: 1 },
      run: () => Promise.reject(new TypeError('smtp is away')),
    })
    const worker = jobs.work([fail])
    const failed = await jobs.enqueue(fail, { user: 42, text: `${hostile}${'k'.repeat(10_000)}` })
    await until('the job is buried', async () => (await jobs.find(failed.id))?.state === 'buried')
    await worker.close()
    const idle = defineJob<unknown>('idle', { queue: 'mail', run: () => {} })
    const first = await jobs.enqueue(idle, 'first')
    const second = await jobs.enqueue(idle, 'second', { after: [first] })

    const page = await openPage(board, { at: '#/jobs' })
    const list = page.getByRole('table', { name: 'Jobs', exact: true })
    await list.getByText('blocked').waitFor()
    // The graphics show the same as their tables.
    await page
      .getByRole('link', { name: /^failed\s*1$/ })
      .first()
      .waitFor()
    await expectAccessible(page)

    // One click leads from a kind to its failed jobs.
    await page.getByRole('img', { name: /^Failures, all queues\. Latest values: failed attempts/ }).waitFor()
    const kinds = page.getByRole('table', { name: 'Kinds' })
    await kinds.getByText('TypeError: smtp is away').waitFor()
    await kinds.getByRole('link', { name: /^1 failed jobs of kind/ }).click()
    await list.getByText('blocked').waitFor({ state: 'detached' })
    // The list is empty while the new search runs.
    await list.locator('tbody tr').first().waitFor()
    expect(await list.locator('tbody tr').count()).toBe(1)
    await page.goto(`${board.url}#/jobs`)
    await list.getByText('blocked').waitFor()

    // A mistake is explained, and a suggestion is accepted. The page does not send the invalid search.
    await page.keyboard.press('/')
    await page.keyboard.type('state:faild')
    await page.getByText('Did you mean state:failed?').waitFor()
    await page.keyboard.press('Control+A')
    await page.keyboard.type('state:fa')
    await page.getByRole('button', { name: 'state:failed' }).waitFor()
    await page.keyboard.press('ArrowDown')
    // Text that is typed at the same moment comes after the accepted suggestion.
    const accepted = await page.evaluate(() => {
      ;(document.activeElement as HTMLElement).click()
      const field = document.activeElement as HTMLInputElement
      return { value: field.value, caret: field.selectionStart }
    })
    expect(accepted).toEqual({ value: 'state:failed ', caret: 'state:failed '.length })
    await page.keyboard.type('input.user:42')
    await page.waitForURL(/input\.user%3A42/)
    await list.getByText('blocked').waitFor({ state: 'detached' })
    const row = list.locator('tbody tr')
    await row.first().waitFor()
    expect(await row.count()).toBe(1)

    await row.focus()
    await page.keyboard.press('Enter')
    const details = page.getByRole('dialog', { name: new RegExp(`^Job ${failed.id}:`) })
    await details.getByText('smtp is away').first().waitFor()
    await details.getByRole('img', { name: /attempt 1 failed; current state: failed/ }).waitFor()
    await expectAccessible(page)
    await details.getByRole('button', { name: 'Retry' }).click()
    const dialog = page.getByRole('dialog', { name: /^Retry/ })
    await dialog.getByText('run again with the same input').waitFor()
    await dialog.getByRole('button', { name: 'Retry' }).click()
    await details.getByText('No worker serves its queue').waitFor()
    expect((await jobs.find(failed.id))?.state).toBe('ready')
    await page.keyboard.press('Escape')
    await details.waitFor({ state: 'detached' })

    // Narrow and dark: a job that waits for another job.
    const other = await openPage(board, { at: `#/jobs?id=${second.id}`, theme: 'dark', width: 390 })
    await other.getByText('The job depends on another job').waitFor()
    await other.getByRole('link', { name: new RegExp(`idle.*ready · ${first.id}`) }).waitFor()
    await expectAccessible(other)
    await other.getByRole('button', { name: `Cancel job ${second.id}` }).click()
    const cancel = other.getByRole('dialog', { name: /^Cancel/ })
    await cancel.getByLabel('Reason').fill('a test')
    await cancel.getByRole('button', { name: 'Cancel', exact: true }).click()
    await other.getByText(`Cancelled job ${second.id}.`).waitFor()
    expect((await jobs.find(second.id))?.state).toBe('cancelled')

    await sql(url, `update holdfast.job_stopped set state = 'buried'`)
    await page.goto(`${board.url}#/jobs`)
    // One click on the state, one on the button: all failed jobs are retried.
    await page
      .getByRole('navigation', { name: 'States of jobs' })
      .getByRole('link', { name: /^failed\s*1$/ })
      .click()
    await page.getByRole('checkbox', { name: `Select ${second.id}` }).check()
    await page.getByRole('button', { name: 'Retry selected jobs found' }).waitFor()
    await page.getByRole('checkbox', { name: 'Select all rows' }).uncheck()
    await page.getByRole('button', { name: 'Retry all jobs found' }).click()
    const retry = page.getByRole('dialog', { name: /^Retry/ })
    await retry.getByText('1 job can run immediately').waitFor()
    await expectAccessible(page)
    await retry.getByLabel('Reason').fill('a test')
    await retry.getByRole('button', { name: 'Retry' }).click()
    await page.getByText('1 job retried.').waitFor()
    expect((await jobs.find(second.id))?.state).toBe('waiting')
    await page.getByRole('button', { name: 'Pause queue mail' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Pause' }).click()
    await page.getByRole('button', { name: 'Resume queue mail' }).waitFor()

    // The name of a queue leads to its jobs, with any characters. A queue whose name is unknown has no link.
    const spaced = await jobs.enqueue(defineJob('spaced', { queue: 'my "queue"', run: () => {} }), null)
    const easy = defineJob('easy', { queue: 'easy', run: () => {} })
    jobs.work([easy])
    const { id: easyId } = await jobs.enqueue(easy, null)
    await until('the job is done', async () => (await jobs.find(easyId))?.state === 'done')
    await page.goto(`${board.url}#/now`)
    await page.getByRole('table', { name: 'Queues' }).getByRole('link', { name: 'my "queue"' }).click()
    await list.getByRole('row', { name: 'spaced' }).waitFor()
    expect(await row.count()).toBe(1)
    await page.goto(`${board.url}#/jobs?id=${spaced.id}`)
    const one = page.getByRole('dialog', { name: `Job ${spaced.id}: spaced` })
    await one.getByRole('link', { name: 'my "queue"' }).click()
    await one.waitFor({ state: 'detached' })
    await list.getByRole('row', { name: 'spaced' }).waitFor()
    expect(await row.count()).toBe(1)
    await sql(url, `delete from holdfast.queue where name = 'my "queue"'`)
    await page.goto(`${board.url}#/jobs?id=${spaced.id}`)
    await one.getByText(/^key -?\d+$/).waitFor()
    expect(await one.getByRole('link', { name: /key/ }).count()).toBe(0)

    // A log that grows while the page is open, and a job that is enqueued again with another input.
    const going = gate()
    const talk = defineJob<{ part: number }>('talk', {
      queue: 'talks',
      run: async ({ part }, { log }) => {
        log('began', { part })
        await going.opened
        log('went on')
        throw new Error('in the end')
      },
      retry: { attempts: 1 },
    })
    jobs.work([talk])
    const talking = await jobs.enqueue(talk, { part: 1 })
    await page.goto(`${board.url}#/jobs?id=${talking.id}`)
    const shown = page.getByRole('dialog', { name: `Job ${talking.id}: talk` })
    await shown.getByText('began').waitFor()
    going.open()
    await shown.getByText('went on').waitFor()
    await shown.getByText('Stack trace').click()
    await shown
      .getByText(/at .*jobs\.test/)
      .first()
      .waitFor()
    await expectAccessible(page)
    await shown.getByRole('button', { name: 'Edit and enqueue again' }).click()
    const form = page.getByRole('dialog', { name: 'Edit and enqueue again' })
    await form.getByLabel('Input (JSON)').fill('{"part": ')
    await form.getByText('The input is not valid JSON').waitFor()
    await form.getByLabel('Input (JSON)').fill('{"part": 2}')
    await form.getByText('Enqueues a job of kind talk').waitFor()
    await expectAccessible(page)
    await form.getByRole('button', { name: 'Enqueue', exact: true }).click()
    await page.waitForURL((to) => to.hash.includes('id=') && !to.hash.includes(`id=${talking.id}`))
    const again = Number(/id=(\d+)/.exec(page.url())![1])
    expect((await jobs.find(again))?.input).toEqual({ part: 2 })

    // A drawing on a canvas has the colours of the theme.
    await page.goto(`${board.url}#/jobs`)
    const isDrawnIn = (token: string) =>
      page.evaluate((name) => {
        const probe = document.body.appendChild(document.createElement('i'))
        probe.style.cssText = `transition: none; color: var(${name})`
        const wanted = getComputedStyle(probe).color.match(/\d+/g)!.map(Number)
        probe.remove()
        // A change of its width draws the canvas again, too.
        const canvas = document.querySelector<HTMLCanvasElement>('.time-chart canvas')
        if (!canvas) return false
        const { data } = canvas.getContext('2d')!.getImageData(0, 0, canvas.width, canvas.height)
        for (let at = 0; at < data.length; at += 4) {
          if (data[at + 3] === 255 && wanted.every((value, of) => data[at + of] === value)) return true
        }
        return false
      }, token)
    await until('the lines are drawn', () => isDrawnIn('--line'))
    await page.emulateMedia({ colorScheme: 'dark' })
    await until('the lines are drawn again', () => isDrawnIn('--line'))

    const acts = await sql<{ act: string }>(url, 'select act from holdfast.audit order by id')
    expect(acts.map(({ act }) => act)).toEqual(['retry-job', 'cancel-job', 'retry-jobs', 'pause-queue', 'enqueue-job'])
  })

  test.skipIf(!runsAll)(
    'a delivery is found by the prefix of its key, and is forgotten',
    { timeout: 60_000 },
    async () => {
      const board = await openBoard({
        redact: (payload, { what }) => (what === 'delivery answer' ? 'hidden' : payload),
      })
      const holdfast = await open({ url: board.databaseUrl, namespace: 'shop' })
      await holdfast.once.run(`stripe:${hostile}`, async () => ({ secret: 1 }))
      await holdfast.once.run('github:1', async () => 1)
      for (const [theme, width] of [
        ['dark', 1280],
        ['light', 390],
      ] as const) {
        const page = await openPage(board, { at: '#/deliveries', theme, width })
        await page.getByText('github:1').waitFor()
        await page.keyboard.press('/')
        await page.keyboard.type('stripe:')
        await page.getByText('github:1').waitFor({ state: 'detached' })
        await expectAccessible(page)
        if (width === 390) continue
        await page.locator('tbody tr').first().focus()
        await page.keyboard.press('Enter')
        await page.getByText('"hidden"').waitFor()
        await expectAccessible(page)
      }
      const page = await openPage(board, { at: `#/deliveries?${new URLSearchParams({ of: 'shop', key: 'github:1' })}` })
      await page.getByRole('button', { name: 'Forget github:1' }).click()
      const dialog = page.getByRole('dialog', { name: /^Forget/ })
      await dialog.getByText('with all its effects').waitFor()
      await dialog.getByLabel('Reason').fill('a test')
      await dialog.getByRole('button', { name: 'Forget' }).click()
      await page.getByText('There is no such delivery.').waitFor()
      expect((await holdfast.once.run('github:1', async () => 2)).status).toBe('done')
    },
  )
})
