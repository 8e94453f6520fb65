// Tests a dashboard with several databases in a real browser.
import { expect, test } from 'vitest'
import { defineJob } from '../../src/index.js'
import { sql } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { describeInBrowser, expectAccessible, openBoard, openPage } from './fixture.js'

const nowhere = 'postgres://app:s3cret@127.0.0.1:1/app'

describeInBrowser('several databases', () => {
  test('the first page sums up all databases, and a link keeps its database', async () => {
    const [eu, us] = [await databaseUrl(), await databaseUrl()]
    const holdfast = await open({ url: us })
    await holdfast.jobs.enqueueMany(defineJob('send', { queue: 'mail', run: (_: number) => {} }), [1, 2, 3])
    const board = await openBoard({ databases: { eu: { url: eu }, us: { url: us }, ap: { url: nowhere } } })
    for (const [theme, width] of [
      ['light', 1280],
      ['dark', 390],
    ] as const) {
      const page = await openPage(board, { theme, width, expects: /status of 503/ })
      await page.getByRole('heading', { level: 1, name: 'All databases' }).waitFor()
      await page.getByText('unreachable').waitFor()
      await page.getByText('1 unavailable').waitFor()
      await page.getByRole('list', { name: 'Totals of all databases' }).getByText('Ready3').waitFor()
      await expectAccessible(page)
      // The database that is down does not count as a lost connection.
      await page.getByText('Live', { exact: true }).waitFor()
      expect(await page.getByText('s3cret').count()).toBe(0)
    }
    const page = await openPage(board)
    await page.getByRole('link', { name: 'mail' }).click()
    await page.waitForURL(/#\/jobs\?.*database=us/)
    await page.getByRole('heading', { level: 1, name: 'Jobs' }).waitFor()
    await page.getByRole('row', { name: /send/ }).first().waitFor()
    expect(await page.title()).toBe('Jobs · us · Holdfast')
    // The same search in another database.
    await page.getByRole('combobox', { name: 'Database' }).selectOption('eu')
    await page.waitForURL(/database=eu.*queue%3Amail|queue%3Amail.*database=eu/)
    await expect.poll(() => page.title(), { timeout: 10_000 }).toBe('Jobs · eu · Holdfast')
    // A link without a database opens the first one.
    await page.goto(`${board.url}#/locks`)
    await page.waitForURL(/#\/locks\?database=eu/)
  })

  test('the numbers of jobs are marked if the overview does not list all queues', async () => {
    const [url, other] = [await databaseUrl(), await databaseUrl()]
    const { jobs } = await open({ url })
    const inQueue = (at: number) => defineJob('send', { queue: `mail ${at}`, run: () => {} })
    await Promise.all(Array.from({ length: 201 }, (_, at) => jobs.enqueue(inQueue(at))))
    const board = await openBoard({ databases: { eu: { url }, us: { url: other } } })
    const page = await openPage(board)
    await page.getByRole('list', { name: 'Totals of all databases' }).getByText('100+0+ running').waitFor()
    await page.goto(`${board.url}#/now?database=eu`)
    await page.getByText('100+ ready, 0+ running').waitFor()
    await page.goto(`${board.url}#/jobs?database=eu`)
    await page.getByRole('link', { name: /^ready\s*200\+$/ }).waitFor()
  })

  test('keys lead to all databases and into one, and an action changes only the chosen one', async () => {
    const [eu, us] = [await databaseUrl(), await databaseUrl()]
    const instances = [await open({ url: eu }), await open({ url: us })]
    for (const { jobs } of instances) await jobs.enqueue(defineJob('send', { queue: 'mail', run: () => {} }))
    const board = await openBoard({ databases: { eu: { url: eu }, us: { url: us } } })
    const page = await openPage(board, { at: '#/now?database=eu' })
    await page.getByRole('heading', { level: 1, name: 'Now' }).waitFor()
    await page.keyboard.press('g')
    await page.keyboard.press('a')
    await page.getByRole('heading', { level: 1, name: 'All databases' }).waitFor()
    await page.getByRole('row', { name: /^us/ }).first().waitFor()
    await page.keyboard.press('j')
    await page.keyboard.press('j')
    await page.keyboard.press('Enter')
    await page.waitForURL(/#\/now\?database=us/)
    await page.getByRole('heading', { level: 1, name: 'Now' }).waitFor()
    await page.keyboard.press('Control+k')
    await page.keyboard.type('pause mail')
    await page.getByRole('option', { name: /Pause queue mail/ }).waitFor()
    await page.keyboard.press('Enter')
    await page
      .getByRole('dialog')
      .getByRole('button', { name: /^Pause/ })
      .click()
    const paused = (url: string) => sql(url, 'select name from holdfast.queue where paused_at is not null')
    await expect.poll(() => paused(us), { timeout: 10_000 }).toEqual([{ name: 'mail' }])
    expect(await paused(eu)).toEqual([])
  })
})
