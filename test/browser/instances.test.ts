// Tests the page of instances in a real browser.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { defineJob, Holdfast } from '../../src/index.js'
import { sql, until } from '../setup/facts.js'
import { type Board, describeInBrowser, expectAccessible, openPage, startBoard } from './fixture.js'

describeInBrowser('the page of instances', () => {
  let board: Board
  beforeAll(async () => {
    board = await startBoard()
  })
  afterAll(() => board.close())

  test('the page shows the instances, their work, and that one drains', async () => {
    const url = board.databaseUrl
    const empty = await openPage(board, { at: '#/instances' })
    await empty.getByText('No instance is open.').waitFor()
    await expectAccessible(empty)

    await using one = await Holdfast.open({ url, namespace: 'shop' })
    await using other = await Holdfast.open({ url, namespace: 'shop', anchor: 'none' })
    await one.locks.acquire('<b>etl</b>')
    // Without an anchor, an instance has a row only if it takes part in something, here in a schedule.
    other.schedules.add('nightly', { cron: '0 3 * * *' }, () => {})
    const stops = new AbortController()
    let end = () => {}
    const ended = new Promise<void>((resolve) => {
      end = resolve
    })
    const long = () => ended
    const longJob = defineJob('long', { run: long })
    const job = await one.jobs.enqueue(longJob, null)
    one.jobs.work([longJob])
    const delivery = one.once.run('<i>order</i> 7', long)
    const waits = other.locks.acquire('<b>etl</b>', { signal: stops.signal }).catch(() => {})
    // A dead instance of an old version, with two reconnects and a clock that is a minute behind.
    await sql(
      url,
      `insert into holdfast.instance (id, name, namespace, session, backend_pid, host, os_pid, version, expiry_ms, pooler, generation, reconnects, clock_ahead_ms)
       values ('gone', 'worker-<i>9</i>/4711', 'shop', 999999, 1, 'worker-<i>9</i>', 4711, '0.0.9', 15000, 'session pooler', 1, 2, -65000)`,
    )
    const page = await openPage(board, { at: '#/instances', theme: 'dark' })
    const table = page.getByRole('table', { name: 'Instances' })
    const dead = table.getByRole('row', { name: /worker-<i>9<\/i>\/4711/ })
    await dead.getByText('lost', { exact: true }).waitFor()
    await dead.getByText('1m 5s behind').waitFor()
    await page.getByText('2 alive, 1 lost.').waitFor()
    await until('a heartbeat is drawn', async () => (await page.locator('.heartbeats-stroke').count()) > 0)
    await expectAccessible(page)
    await page.keyboard.press('t')
    await page.getByRole('table', { name: 'Heartbeats' }).waitFor()
    await page.keyboard.press('t')

    await page.goto(`${board.url}#/instances?instance=${one.id}`)
    const names = page.getByRole('table', { name: 'Holds and waits for' })
    await names.getByRole('link', { name: '<b>etl</b>' }).waitFor()
    await page.getByText(/has its own session, with backend PID \d+/).waitFor()
    await expectAccessible(page)
    const runs = page.getByRole('table', { name: 'Running' })
    await runs.getByRole('link', { name: `long ${job.id}` }).click()
    await page
      .getByRole('dialog', { name: `Job ${job.id}: ` })
      .getByText('Instance', { exact: true })
      .waitFor()
    await page.goBack()
    await runs.getByRole('link', { name: '<i>order</i> 7' }).click()
    await page
      .getByRole('dialog', { name: /^Delivery/ })
      .getByText('Instance', { exact: true })
      .waitFor()
    await page.goBack()
    end()
    await delivery
    await page.getByText('Nothing is running.').waitFor()

    await page
      .getByRole('button', { name: /^Drain/ })
      .first()
      .focus()
    await page.keyboard.press('Enter')
    const dialog = page.getByRole('dialog', { name: /^Drain/ })
    await dialog.getByText(/permanently stops accepting new work/).waitFor()
    await expectAccessible(page)
    await dialog.getByRole('button', { name: 'Drain', exact: true }).focus()
    await page.keyboard.press('Enter')
    await until('the instance drains', async () => {
      const [row] = await sql<{ state: string }>(url, 'select state from holdfast.instance where id = $1', [one.id])
      return row!.state !== 'open' && row!.state !== 'drain-requested'
    })
    await table
      .getByText(/drain(ing|ed)/)
      .first()
      .waitFor()
    const audit = page.getByRole('table', { name: 'Audit log' })
    await audit.getByText('drain-instance').waitFor()
    await audit.getByText(/^Asked .* to drain\.$/).waitFor()

    const narrow = await openPage(board, { at: `#/instances?instance=${other.id}`, width: 390 })
    await narrow.getByText('has no session; renews its row at least every').waitFor()
    await expectAccessible(narrow)
    expect(await narrow.getByText(/instance-?gone|worker-<i>9/).count()).toBeGreaterThan(0)
    stops.abort()
    await waits
  }, 60_000)
})
