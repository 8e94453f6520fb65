// Tests the shell of the dashboard in a real browser: its pages, its keys, its themes, and what it must not do.
import { readdirSync, readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { compress } from '../../src/dashboard/assets.js'
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

test('all assets together have at most 110 kB', () => {
  const assets = new URL('../../dist/dashboard/ui/assets/', import.meta.url)
  const bytes = readdirSync(assets).reduce(
    (sum, name) => sum + compress(readFileSync(new URL(name, assets))).br.length,
    0,
  )
  expect(bytes).toBeGreaterThan(5_000)
  expect(bytes).toBeLessThan(110_000)
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

test('the letter of an instance comes from its name, and no two instances have the same letter', async () => {
  // The module adds a listener when it is loaded.
  vi.stubGlobal('addEventListener', () => {})
  const { markOf } = await import('../../ui/marks.js')
  vi.unstubAllGlobals()
  const letterOf = (id: string, name: string | null) => markOf(id, name).letter
  expect([letterOf('a', 'web-3'), letterOf('b', 'Ada'), letterOf('c', 'Ana'), letterOf('d', 'worker 12')]).toEqual([
    ...['W3', 'A', 'AN', 'W12'],
  ])
  // A mark keeps its letter, also where the name is unknown.
  expect(letterOf('a', null)).toBe('W3')
  // The default name is a host and a process ID.
  const others = ['e', 'f', 'g'].map((id) => letterOf(id, 'vm/17'))
  expect(new Set(others).size).toBe(3)
  for (const letter of others) expect(letter).toMatch(/^[B-Z]$/)
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
    test(`each page is reached by its keys, and is accessible: ${theme}, ${width} px`, async () => {
      const page = await openPage(board, { theme, width })
      for (const [letter, title] of pages) {
        await page.keyboard.press('g')
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
    await page.keyboard.press('g')
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

  test('shortcuts of single keys are switched off and on, and the choice is kept', async () => {
    const page = await openPage(board, { at: '#/jobs' })
    const goToLocks = async () => {
      await page.keyboard.press('g')
      await page.keyboard.press('l')
    }
    await page.keyboard.press('?')
    const box = page.getByRole('checkbox', { name: /^Shortcuts without Ctrl/ })
    await box.uncheck()
    await page.keyboard.press('Escape')
    await page.reload()
    await page.getByRole('heading', { level: 1, name: 'Jobs' }).waitFor()
    await goToLocks()
    await page.keyboard.press('?')
    expect(await page.getByRole('dialog').count()).toBe(0)
    expect(page.url()).toContain('#/jobs')
    // Keys with a modifier stay on.
    await page.keyboard.press('Control+k')
    await page.getByRole('dialog', { name: 'Go to' }).waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: 'Keyboard shortcuts' }).click()
    await box.check()
    await page.keyboard.press('Escape')
    await goToLocks()
    await page.getByRole('heading', { level: 1, name: 'Locks and leases' }).waitFor()
  })

  test('times are shown in UTC or in the time zone of the browser, and the choice is kept', async () => {
    const page = await openPage(board, { timezone: 'Asia/Kolkata' })
    const zone = page.getByTitle(/^Times are/)
    expect(await zone.textContent()).toBe('UTC')
    await zone.click()
    expect(await zone.textContent()).toBe('UTC+05:30')
    await page.reload()
    await page.getByRole('navigation').waitFor()
    expect(await zone.textContent()).toBe('UTC+05:30')
  })

  test('a visitor without rights sees the reason for missing buttons', async () => {
    const reader = await openBoard({ databaseUrl: board.databaseUrl, auth: () => ({ name: 'ada' }) })
    const page = await openPage(reader, { at: '#/jobs' })
    await page.getByText('Read only: your account may not run actions.').waitFor()
    await expectAccessible(page)
    const closed = await openBoard({ databaseUrl: board.databaseUrl, readOnly: true })
    const other = await openPage(closed, { at: '#/jobs' })
    await other.getByText('Read only: this dashboard has no actions.').waitFor()
  })

  test('a chosen namespace starts at the first page of a list', async () => {
    const page = await openPage(board, { at: '#/schedules?namespace=elsewhere&after=200' })
    await page.getByRole('combobox', { name: 'Namespace' }).selectOption('')
    await expect.poll(() => new URL(page.url()).hash).toBe('#/schedules')
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
    await page.getByRole('navigation', { name: 'Pages' }).waitFor()
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
