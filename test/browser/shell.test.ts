// Tests the shell of the dashboard in a real browser: its pages, its keys, its themes, and what it must not do.
import { readdirSync, readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { now, resetClock, syncClock } from '../../ui/clock.js'
import { SilentProxy } from '../fault/silent-proxy.js'
import { type Board, describeInBrowser, expectAccessible, openBoard, openPage, startBoard } from './fixture.js'

const pages = [
  ['n', 'Now'],
  ['l', 'Locks and leases'],
  ['s', 'Schedules'],
  ['j', 'Jobs'],
  ['d', 'Deliveries'],
  ['m', 'Limits'],
  ['i', 'Instances'],
] as const

test('all assets together have at most 100 kB', () => {
  const assets = new URL('../../dist/dashboard/ui/assets/', import.meta.url)
  const bytes = readdirSync(assets).reduce((sum, name) => sum + gzipSync(readFileSync(new URL(name, assets))).length, 0)
  expect(bytes).toBeGreaterThan(5_000)
  expect(bytes).toBeLessThan(100_000)
})

test('the clock shows the latest time of the database, and an old snapshot does not set it back', () => {
  const hourMs = 3_600_000
  const begun = Date.now() + 10 * hourMs
  const from = performance.now()
  const expectHour = (hour: number) =>
    expect(Math.abs(now() - (performance.now() - from) - begun - hour * hourMs)).toBeLessThan(1_000)
  const at = (hour: number, ms = 0) => new Date(begun + hour * hourMs + ms).toISOString()
  resetClock(at(0))
  expectHour(0)
  // A snapshot that has not changed for three hours, sent to a new watcher.
  syncClock(at(-3))
  expectHour(0)
  resetClock(at(0, -4_000))
  expectHour(0)
  syncClock(at(1))
  expectHour(1)
  // The clock of the database was set back.
  resetClock(at(-1))
  expectHour(-1)
})

describeInBrowser('the shell of the dashboard', () => {
  let board: Board
  beforeAll(async () => {
    board = await startBoard()
  })
  afterAll(() => board.close())

  for (const [theme, width] of [
    ['light', 1280],
    ['dark', 390],
  ] as const) {
    test(`each page is reached by its letter, and is accessible: ${theme}, ${width} px`, async () => {
      const page = await openPage(board, { theme, width })
      for (const [letter, title] of pages) {
        await page.keyboard.press(letter)
        await page.getByRole('heading', { level: 1, name: title, exact: true }).waitFor()
        await page.locator('.panel-body[aria-busy="false"]').first().waitFor()
        await expectAccessible(page)
      }
      const background = await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor)
      expect(background).toBe(theme === 'light' ? 'rgb(246, 247, 249)' : 'rgb(15, 19, 24)')
    })
  }

  test('the help sheet shows all keys that exist', async () => {
    const page = await openPage(board, { at: '#/jobs' })
    await page.keyboard.press('?')
    const sheet = page.getByRole('dialog', { name: 'Keyboard shortcuts' })
    for (const [, title] of pages) await sheet.getByText(title, { exact: true }).waitFor()
    await sheet.getByText('Search', { exact: true }).waitFor()
    await expectAccessible(page)
    // An open dialog receives all keys.
    await page.keyboard.press('n')
    expect(page.url()).toContain('#/jobs')
    await page.keyboard.press('Escape')
    await sheet.waitFor({ state: 'detached' })
    await page.keyboard.press('/')
    // A text field receives all keys too.
    await page.keyboard.type('nlsd')
    await page.waitForURL(/search=nlsd/)
    expect(await page.getByRole('searchbox').inputValue()).toBe('nlsd')
  })

  test('the chosen theme is applied and kept', async () => {
    const page = await openPage(board)
    const theme = () => page.evaluate(() => document.documentElement.dataset.theme)
    expect(await theme()).toBeUndefined()
    for (const next of ['light', 'dark']) {
      await page.getByRole('button', { name: /^Theme/ }).click()
      expect(await theme()).toBe(next)
    }
    await page.reload()
    await page.getByRole('navigation').waitFor()
    expect(await theme()).toBe('dark')
    await page.getByRole('button', { name: /^Theme/ }).click()
    expect(await theme()).toBeUndefined()
  })

  test('a panel shows its SQL, and its button gets the focus back', async () => {
    const page = await openPage(board, { at: '#/jobs' })
    // The button of the panel in focus, which need not be the first panel.
    const button = page.getByRole('button', { name: /^SQL of / }).last()
    await button.focus()
    await page.keyboard.press('q')
    const dialog = page.getByRole('dialog', { name: (await button.textContent())! })
    await dialog
      .getByText(/select/)
      .first()
      .waitFor()
    await expectAccessible(page)
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
    expect(await button.evaluate((element) => element === document.activeElement)).toBe(true)
  })

  test('a lost server is shown, and the page recovers without a reload', async () => {
    const page = await openPage(board, { at: '#/jobs', expects: /ERR_/ })
    await page.getByText('Live', { exact: true }).waitFor()
    board.setGone(true)
    await page.getByText('No connection').waitFor()
    await page.locator('.panel[data-stale]').first().waitFor()
    board.setGone(false)
    await page.getByText('Live', { exact: true }).waitFor()
    await page.locator('.panel[data-stale]').first().waitFor({ state: 'detached' })
  })

  test('a lost database is shown next to the last data, and a page that is opened then shows only the error', async () => {
    const proxy = await SilentProxy.before(board.databaseUrl)
    onTestFinished(() => proxy.close())
    const before = await openBoard({ databaseUrl: proxy.through(board.databaseUrl) })
    const page = await openPage(before, { at: '#/jobs' })
    await page.getByText('No queues yet.').waitFor()
    proxy.cut()
    await page.getByText('No database', { exact: true }).waitFor()
    await page.getByText('Data as of').first().waitFor()
    await page.getByText('No queues yet.').waitFor()
    await expectAccessible(page)
    await page.reload()
    await page.getByText('The database cannot be reached').first().waitFor()
    expect(await page.getByText('No queues yet.').count()).toBe(0)
    await expectAccessible(page)
    proxy.restore()
    await page.getByText('Live', { exact: true }).waitFor()
    await page.getByText('No queues yet.').waitFor()
  })
})
