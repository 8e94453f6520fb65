import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { expect, test } from 'vitest'
import { descendantsOf, listProcesses, type Process, stillRunning } from '../../src/cli/processes.js'
import { freshDatabase } from '../setup/database.js'
import { sql, until } from '../setup/facts.js'
import { type Running, start, startOnTerminal } from './program.js'
import { fits, fitsRow } from './schemas.js'

// The parts are long and mostly wait, so they all run at the same time.
const longMs = 120_000

/** With this seed, the demo kills one instance and freezes another as early as possible. */
const seed = '39'

interface Row {
  event: string
  text: string
  urls: { dashboard: string; database: string } | null
  counts: { paymentsTwice: number } | null
  proof: { invariant: string; checked: number; violations: number; example: string | null }[] | null
}

test('the demo proves its invariants, reports a violation, and leaves nothing behind after Ctrl-C or SIGKILL', {
  timeout: longMs,
}, async () => {
  await Promise.all([
    provesInGivenDatabase(),
    reportsViolation(),
    endsBeforeItRuns(),
    endsWithCtrlC(),
    endsWhenKilled(),
  ])
})

async function provesInGivenDatabase(): Promise<void> {
  const { url, drop } = await freshDatabase()
  const running = start(['demo', '--url', url, '--instances', '3', '--seed', seed, '--without', '--jsonl'], {}, longMs)
  const progress = () => {
    const rows: Row[] = running.stdout
      .split('\n')
      .slice(0, -1)
      .map((line) => fitsRow('demo', JSON.parse(line)))
    const last = (event: string) => rows.findLast((row) => row.event === event)
    return {
      events: new Set(rows.map(({ event }) => event)),
      dashboard: rows[0]?.urls?.dashboard,
      database: rows[0]?.urls?.database,
      proof: rows.findLast((row) => row.proof)?.proof,
      doubles: { with: last('work')?.counts?.paymentsTwice, without: last('without')?.counts?.paymentsTwice ?? 0 },
    }
  }
  const wanted = ['opened', 'tick', 'report', 'elected', 'killed', 'frozen', 'taken-over']
  const isWhole = ({ events, proof, doubles }: ReturnType<typeof progress>) =>
    wanted.every((event) => events.has(event)) &&
    proof?.every(({ checked }) => checked > 0) &&
    // The company without Holdfast books payments twice.
    doubles.without > 0
  await until('the demo runs', () => progress().events.has('opened'), longMs)
  expect(progress().database).toContain(new URL(url).pathname)
  expect(progress().database).not.toContain(`:${new URL(url).password}@`)
  await killsOnRequest(progress().dashboard!)
  await until('every event has occurred and every invariant has checked something', () => isWhole(progress()), longMs)
  running.process.kill('SIGTERM')
  const { status, stderr } = await running.ended
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  const { events, proof, doubles } = progress()
  expect(doubles.with).toBe(0)
  expect([...events].filter((event) => event === 'violation' || event === 'died')).toEqual([])
  expect(proof!.map(({ violations }) => violations)).toEqual(proof!.map(() => 0))
  expect(await sql(url, "select from pg_namespace where nspname like 'holdfast_demo%'")).toEqual([])
  await drop()
}

/** Only the demo's dashboard has a button that kills a process, and only its own page can use the button. */
async function killsOnRequest(dashboard: string): Promise<void> {
  const page = await fetch(dashboard, { headers: { accept: 'text/html' } })
  expect(await page.text()).toContain('<script type="module" src="/demo/script.js">')
  expect(await (await fetch(new URL('demo/script.js', dashboard))).text()).toContain('Kill a process now')
  const kill = (headers: Record<string, string>) =>
    fetch(new URL('demo/kill', dashboard), { method: 'POST', headers: { ...headers } })
  expect((await kill({})).status).toBe(405)
  expect((await kill({ 'x-holdfast-demo': '1', origin: 'https://elsewhere.example' })).status).toBe(403)
  // The response arrives after the takeover.
  const killOne = async () => {
    const text = await (await kill({ 'x-holdfast-demo': '1' })).text()
    return text.includes(' was killed: ') && text
  }
  const outcome = await until('a process was killed', killOne, longMs)
  expect(outcome).toMatch(/^\w+ was killed: (busy with .* → .*|idle)\.$/)
}

/** A demo that is interrupted before its instances are open ends without an error. */
async function endsBeforeItRuns(): Promise<void> {
  const { url, drop } = await freshDatabase()
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-browser-'))
  const browser = join(folder, 'browser')
  writeFileSync(browser, `#!/bin/sh\necho "$1" > '${folder}/opened'\n`, { mode: 0o755 })
  const running = start(['demo', '--url', url, '--instances', '2', '--open'], { BROWSER: browser }, longMs)
  await untilPrinted(running, 'dashboard')
  running.process.kill('SIGTERM')
  const { status, stdout, stderr } = await running.ended
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  expect(stdout.replaceAll('\n', ' ')).toContain('Here, 2 processes run a small company')
  expect(stdout).not.toContain('postgres://')
  expect(stdout).toContain('npm install holdfast pg')
  const opened = () => existsSync(join(folder, 'opened')) && readFileSync(join(folder, 'opened'), 'utf8')
  expect(await until('the browser is opened', () => /^http:.*\n$/.test(opened() || '') && opened())).toMatch(/^http:/)
  rmSync(folder, { recursive: true })
  await drop()
}

async function reportsViolation(): Promise<void> {
  const { url, drop } = await freshDatabase()
  const running = start(['demo', '--url', url, '--instances', '2', '--json'], {}, longMs)
  await until(
    'the indexer has written a row',
    () =>
      sql(url, 'select from holdfast_demo_company.indexed limit 1').then(
        ({ length }) => length > 0,
        () => false,
      ),
    longMs,
  )
  await sql(url, "insert into holdfast_demo_company.booking values ('evt_x', 1, 'Mallory'), ('evt_x', 2, 'Mallory')")
  running.process.kill('SIGTERM')
  const { status, stdout } = await running.ended
  const { violations, proof } = fits('demo', JSON.parse(stdout))
  expect({ status, violations }).toEqual({ status: 1, violations: 1 })
  const broken = { invariant: 'one effect per delivery', violations: 1, example: 'event evt_x has 2 bookings' }
  expect(proof).toContainEqual(expect.objectContaining(broken))
  await drop()
}

async function endsWithCtrlC(): Promise<void> {
  const running = startOnTerminal(['demo', '--instances', '2', '--show-url'], {}, longMs)
  await untilPrinted(running, '2 processes')
  const left = await traces(running)
  running.type('\x03')
  const { status, stdout } = await running.ended
  expect(stdout).toContain('0 violations in ')
  // Lines of progress are overwritten, and the terminal shows the typed Ctrl-C.
  const lines = stripVTControlCharacters(stdout)
    .replace('^C', '')
    .split(/[\r\n]+/)
  expect(lines.filter((line) => line.length > 80 && !line.includes('postgres://'))).toEqual([])
  expect(status).toBe(0)
  await nothingIsLeft(left)
}

async function endsWhenKilled(): Promise<void> {
  const running = start(['demo', '--instances', '3', '--seed', seed, '--show-url'], {}, longMs)
  await untilPrinted(running, '‖ freeze')
  const left = await traces(running)
  running.process.kill('SIGKILL')
  await nothingIsLeft(left)
}

function untilPrinted(running: Running, text: string): Promise<true> {
  return until(`the demo prints "${text}"`, () => running.stdout.includes(text), longMs)
}

/** Returns the processes that the demo has started and the data directory of its server. */
async function traces({ pid, stdout }: Running): Promise<{ processes: Process[]; directory: string }> {
  const [url] = /postgres:\/\/\S+\/demo/.exec(stdout)!
  const [row] = await sql<{ directory: string }>(url, "select current_setting('data_directory') as directory")
  expect(existsSync(row!.directory)).toBe(true)
  return { processes: descendantsOf(pid), directory: row!.directory }
}

async function nothingIsLeft({ processes, directory }: Awaited<ReturnType<typeof traces>>): Promise<void> {
  expect(processes.length).toBeGreaterThan(10)
  await until(
    'all processes of the demo have ended',
    () => stillRunning(listProcesses(), processes).length === 0,
    longMs,
  )
  await until('the data directory is removed', () => !existsSync(directory), longMs)
}
