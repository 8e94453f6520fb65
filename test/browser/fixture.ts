// A real browser before a real dashboard: one Chromium for a file of tests, a database and a server for each test that wants them.
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

/** `describe` where there is a browser. Where there is none the tests are skipped, and everybody hears of it. */
export function describeInBrowser(name: string, tests: () => void): void {
  if (executablePath && existsSync(executablePath)) {
    describe(name, { timeout: 60_000 }, tests)
    return
  }
  const why = `no Chromium at ${executablePath ?? places.join(', ')}: install it, or name one in HOLDFAST_TEST_CHROMIUM`
  console.warn(`Skipped: ${name}: ${why}`)
  describe.skip(`${name} (${why})`, tests)
}

/** What has not come by then does not come; it says so before the test is over. */
const patienceMs = 20_000

let launched: Promise<Browser> | undefined

/** The browser of this file. */
function browser(): Promise<Browser> {
  launched ??= chromium.launch({ executablePath: executablePath!, args: ['--no-sandbox', '--disable-dev-shm-usage'] })
  return launched
}

afterAll(async () => {
  await (await launched)?.close()
  launched = undefined
})

export interface Board {
  /** Where the page is, with a slash at the end. */
  readonly url: string
  readonly databaseUrl: string
  /** The server goes, or is there again. */
  setGone(isGone: boolean): void
  close(): Promise<void>
}

export interface BoardOptions extends Omit<DashboardOptions, 'url' | 'pool'> {
  /** Default: a database of its own. */
  readonly databaseUrl?: string
  /** Where it is mounted. Default `/ops/holdfast`. */
  readonly path?: string
}

/** A dashboard on a server of its own, with a database of its own unless one is given. */
export async function startBoard({
  databaseUrl,
  path = '/ops/holdfast',
  ...options
}: BoardOptions = {}): Promise<Board> {
  const database = databaseUrl === undefined ? await freshDatabase() : undefined
  const url = databaseUrl ?? database!.url
  const board = dashboard({ url, ...options })
  let isGone = false
  const server = createServer((request, response) => {
    if (isGone) return void request.socket.destroy()
    if (request.url?.startsWith(path)) return board.node(request, response)
    response.writeHead(404).end('not here')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}/`,
    databaseUrl: url,
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

/** The same, closed when the test has finished. */
export async function openBoard(options: BoardOptions = {}): Promise<Board> {
  const board = await startBoard(options)
  onTestFinished(() => board.close())
  return board
}

export interface PageOptions {
  readonly theme?: 'light' | 'dark'
  readonly width?: number
  /** The page of the dashboard: `#/jobs?search=mail`. */
  readonly at?: string
  /** Errors of the console that the test makes on purpose. */
  readonly expects?: RegExp
}

/**
 * The dashboard in a tab of its own. The test fails when anything is logged as an error, when the content security policy
 * refuses something, or when something is asked of another origin.
 */
export async function openPage(board: Board, { theme = 'light', width = 1280, at = '', expects }: PageOptions = {}) {
  const context = await (await browser()).newContext({
    viewport: { width, height: 800 },
    colorScheme: theme,
    reducedMotion: 'reduce',
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
    if (new URL(request.url()).origin !== new URL(board.url).origin) faults.push(`asked of elsewhere: ${request.url()}`)
  })
  onTestFinished(async () => {
    await context.close()
    expect(faults).toEqual([])
  })
  await page.goto(board.url + at)
  await page.getByRole('navigation').waitFor()
  return page
}

/** That an accessibility checker finds nothing, and that nothing has to be scrolled sideways. */
export async function expectAccessible(page: Page): Promise<void> {
  // The policy of the page lets nobody add a script element; what a debugger evaluates is not asked.
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
