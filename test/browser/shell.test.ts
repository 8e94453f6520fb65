// The shell of the dashboard, in a real browser: its pages, its keys, its themes, and what it must not do.
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

test('all that is loaded is at most 100 kB', () => {
  const assets = new URL('../../dist/dashboard/ui/assets/', import.meta.url)
  const bytes = readdirSync(assets).reduce((sum, name) => sum + gzipSync(readFileSync(new URL(name, assets))).length, 0)
  expect(bytes).toBeGreaterThan(5_000)
  expect(bytes).toBeLessThan(100_000)
})

test('the time is the latest that the database has told: an old picture sets it back no more than a slow answer does', () => {
  const hourMs = 3_600_000
  const begun = Date.now() + 10 * hourMs
  const from = performance.now()
  const tellsHour = (hour: number) =>
    expect(Math.abs(now() - (performance.now() - from) - begun - hour * hourMs)).toBeLessThan(1_000)
  const at = (hour: number, ms = 0) => new Date(begun + hour * hourMs + ms).toISOString()
  resetClock(at(0))
  tellsHour(0)
  // A picture that has not changed since, told to whoever looks now.
  syncClock(at(-3))
  tellsHour(0)
  resetClock(at(0, -4_000))
  tellsHour(0)
  syncClock(at(1))
  tellsHour(1)
  // The clock itself was set back.
  resetClock(at(-1))
  tellsHour(-1)
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
      const ground = await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor)
      expect(ground).toBe(theme === 'light' ? 'rgb(246, 247, 249)' : 'rgb(15, 19, 24)')
    })
  }

  test('the help sheet is made of the keys that there are', async () => {
    const page = await openPage(board, { at: '#/jobs' })
    await page.keyboard.press('?')
    const sheet = page.getByRole('dialog', { name: 'Keyboard shortcuts' })
    for (const [, title] of pages) await sheet.getByText(title, { exact: true }).waitFor()
    await sheet.getByText('Search', { exact: true }).waitFor()
    await expectAccessible(page)
    // A dialog has the keys for itself.
    await page.keyboard.press('n')
    expect(page.url()).toContain('#/jobs')
    await page.keyboard.press('Escape')
    await sheet.waitFor({ state: 'detached' })
    await page.keyboard.press('/')
    // So has whoever types.
    await page.keyboard.type('nlsd')
    await page.waitForURL(/search=nlsd/)
    expect(await page.getByRole('searchbox').inputValue()).toBe('nlsd')
  })

  test('the theme is the one that was chosen, and stays it', async () => {
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

  test('a panel shows its SQL, and gives the focus back', async () => {
    const page = await openPage(board, { at: '#/jobs' })
    // Of the panel in focus, which need not be the first.
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

  test('that the server is gone is said; it comes back by itself', async () => {
    const page = await openPage(board, { at: '#/jobs', expects: /ERR_/ })
    await page.getByText('Live', { exact: true }).waitFor()
    board.setGone(true)
    await page.getByText('No connection').waitFor()
    await page.locator('.panel[data-stale]').first().waitFor()
    board.setGone(false)
    await page.getByText('Live', { exact: true }).waitFor()
    await page.locator('.panel[data-stale]').first().waitFor({ state: 'detached' })
  })

  test('that the database is gone is said, with what was true; who opens it then is told so, and nothing else', async () => {
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
