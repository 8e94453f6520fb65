// Opens a real browser on a real dashboard: one Chromium per test file, and a database and a server for each test that wants
// them.
import { existsSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import axe from 'axe-core'
import { type Browser, chromium, type Page } from 'playwright-core'
import { afterAll, describe, expect, onTestFinished } from 'vitest'
import { type DashboardOptions, dashboard } from '../../src/dashboard/index.js'
import { freshDatabase } from '../setup/database.js'

const places = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome']
const executablePath = process.env.HOLDFAST_TEST_CHROMIUM || places.find(existsSync)

/** Calls `describe` if a browser is installed. Otherwise it skips the tests and prints a warning. */
export function describeInBrowser(name: string, tests: () => void): void {
  if (executablePath && existsSync(executablePath)) {
    describe(name, { timeout: 60_000 }, tests)
    return
  }
  const why = `no Chromium at ${executablePath ?? places.join(', ')}: install it, or name one in HOLDFAST_TEST_CHROMIUM`
  console.warn(`Skipped: ${name}: ${why}`)
  describe.skip(`${name} (${why})`, tests)
}

/** Time after which a missing element is an error. It is shorter than the timeout of a test. */
const patienceMs = 20_000

let launched: Promise<Browser> | undefined

/** Returns the browser of this test file. */
function browser(): Promise<Browser> {
  launched ??= chromium.launch({ executablePath: executablePath!, args: ['--no-sandbox', '--disable-dev-shm-usage'] })
  return launched
}

afterAll(async () => {
  await (await launched)?.close()
  launched = undefined
})

export interface Board {
  /** URL of the page, with a slash at the end. */
  readonly url: string
  /** Empty if the dashboard has several databases. */
  readonly databaseUrl: string
  /** Makes the server unavailable, or available again. */
  setGone(isGone: boolean): void
  close(): Promise<void>
}

export interface BoardOptions extends Omit<DashboardOptions, 'url' | 'pool'> {
  /** Default: a new database, unless there are several `databases`. */
  readonly databaseUrl?: string
  /** Path under which the dashboard is mounted. Default `/ops/holdfast`. */
  readonly path?: string
}

/** Starts a dashboard on its own server, with its own database unless one is given. */
export async function startBoard({
  databaseUrl,
  path = '/ops/holdfast',
  ...options
}: BoardOptions = {}): Promise<Board> {
  const needsDatabase = databaseUrl === undefined && options.databases === undefined
  const database = needsDatabase ? await freshDatabase() : undefined
  const url = databaseUrl ?? database?.url
  const board = dashboard({ ...(url !== undefined && { url }), ...options })
  let isGone = false
  const server = createServer((request, response) => {
    if (isGone) return void request.socket.destroy()
    if (request.url?.startsWith(path)) return board.node(request, response)
    response.writeHead(404).end('not here')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}/`,
    databaseUrl: url ?? '',
    setGone(value) {
      isGone = value
      if (isGone) server.closeAllConnections()
    },
    async close() {
      server.closeAllConnections()
      await Promise.all([board.close(), new Promise((resolve) => server.close(resolve))])
      await database?.drop()
    },
  }
}

/** Starts a dashboard and closes it when the test has finished. */
export async function openBoard(options: BoardOptions = {}): Promise<Board> {
  const board = await startBoard(options)
  onTestFinished(() => board.close())
  return board
}

export interface PageOptions {
  readonly theme?: 'light' | 'dark'
  readonly width?: number
  /** Time zone of the browser. */
  readonly timezone?: string
  /** Page of the dashboard, for example `#/jobs?search=mail`. */
  readonly at?: string
  /** Errors of the console that the test causes on purpose. */
  readonly expects?: RegExp
}

/**
 * Opens the dashboard in a new tab. The test fails if the page logs an error, if the content security policy refuses something,
 * or if the page sends a request to another origin.
 */
export async function openPage(
  board: Board,
  { theme = 'light', width = 1280, timezone, at = '', expects }: PageOptions = {},
) {
  const context = await (await browser()).newContext({
    viewport: { width, height: 800 },
    colorScheme: theme,
    reducedMotion: 'reduce',
    ...(timezone !== undefined && { timezoneId: timezone }),
  })
  const page = await context.newPage()
  page.setDefaultTimeout(patienceMs)
  const faults: string[] = []
  const fault = (text: string) => {
    if (!expects?.test(text)) faults.push(text)
  }
  page.on('console', (message) => message.type() === 'error' && fault(message.text()))
  page.on('pageerror', (error) => fault(String(error)))
  page.on('request', (request) => {
    if (new URL(request.url()).origin !== new URL(board.url).origin)
      faults.push(`request to another origin: ${request.url()}`)
  })
  onTestFinished(async () => {
    await context.close()
    expect(faults).toEqual([])
  })
  await page.goto(board.url + at)
  await page.getByRole('navigation', { name: 'Pages' }).waitFor()
  return page
}

/** Expects that an accessibility checker finds nothing, and that the page does not scroll sideways. */
export async function expectAccessible(page: Page): Promise<void> {
  // The policy of the page refuses a script element, but not a script that a debugger evaluates.
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(axe.source)
  const { violations } = await page.evaluate(() =>
    (globalThis as unknown as { axe: typeof axe }).axe.run({ resultTypes: ['violations'], iframes: false }),
  )
  const found = violations.flatMap(({ id, help, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${help}\n  ${html.slice(0, 300)}\n  ${failureSummary}`),
  )
  expect(found).toEqual([])
  const tooWide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
  expect(tooWide, 'pixels that have to be scrolled sideways').toBe(0)
}
