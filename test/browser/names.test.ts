// Tests the pages of names and limits in a real browser: names and limits are found, opened and taken from their holders.
import { expect, onTestFinished, test } from 'vitest'
import { Holdfast } from '../../src/index.js'
import { until } from '../setup/facts.js'
import { describeInBrowser, expectAccessible, openBoard, openPage } from './fixture.js'

const hostile = '<script>alert("1")</script> \u202eright to left \u0007'

describeInBrowser('the pages of names and limits', () => {
  test('a lock is found, requested and broken, and a limit is reset, with any characters in their names', {
    timeout: 120_000,
  }, async () => {
    const board = await openBoard()
    const open = async () => {
      const holdfast = await Holdfast.open({ url: board.databaseUrl, namespace: 'shop', expiry: '30s' })
      onTestFinished(() => holdfast.close())
      return holdfast
    }
    const [a, b] = [await open(), await open()]
    const lock = await a.locks.acquire(hostile)
    await a.locks.acquire('invoice:42')
    const waiting = b.locks.acquire(hostile, { wait: '1m' })
    const permit = await a.limits.acquire('export:42', { max: 1 })
    const queued = b.limits.acquire('export:42', { max: 1, wait: '1m' })

    const page = await openPage(board, { at: '#/locks' })
    const names = page.getByRole('table', { name: 'Names' })
    await names.getByText('invoice:42').waitFor()
    await page.keyboard.press('/')
    await page.keyboard.type('script')
    await names.getByText('invoice:42').waitFor({ state: 'detached' })
    // Rows can be selected and opened without a mouse.
    await names.locator('tbody tr').first().focus()
    await page.keyboard.press('Enter')
    const details = page.getByRole('dialog').first()
    await details.getByRole('heading', { name: 'Waiting' }).waitFor()
    await expectAccessible(page)
    await details.getByRole('button', { name: /^Ask to release/ }).click()
    await page.getByText('decides when to stop its work').waitFor()
    await page.getByRole('button', { name: 'Ask to release', exact: true }).click()
    await until('the holder has received the request', () => lock.signal.aborted)
    await details.getByRole('button', { name: /^Break/ }).click()
    const confirm = page.getByRole('button', { name: 'Break', exact: true })
    // A dangerous act needs a reason.
    await page.getByText('To ask the holder to stop instead').waitFor()
    expect(await confirm.isDisabled()).toBe(true)
    await page.getByLabel('Reason').fill('it hangs')
    await confirm.click()
    await page.getByLabel('Reason').waitFor({ state: 'detached' })
    await (await waiting).release()
    await page.keyboard.press('Escape')
    await details.waitFor({ state: 'detached' })

    await page.keyboard.press('g')
    await page.keyboard.press('m')
    await page.getByRole('cell', { name: 'export:42', exact: true }).click()
    const limit = page.getByRole('dialog').first()
    await limit.getByRole('button', { name: /^Reset/ }).click()
    await page.getByLabel('Reason').fill('it is stuck')
    await page.getByRole('button', { name: 'Reset', exact: true }).click()
    await until('the permit is revoked', () => permit.signal.aborted)
    await (await queued).release()

    const narrow = await openPage(board, { theme: 'dark', width: 390, at: '#/locks' })
    await narrow.getByRole('heading', { name: 'History' }).waitFor()
    await expectAccessible(narrow)
  })
})
