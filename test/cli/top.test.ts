import { execFileSync } from 'node:child_process'
import { readFileSync, readlinkSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest'
import { descendantsOf } from '../../src/cli/processes.js'
import { startEmbedded } from '../../src/embedded/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { stays } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { ownDatabase, ownServer } from '../setup/own-server.js'
import { bin, eventually, type Running, run, start, startOnTerminal } from './program.js'
import { fits, fitsRow } from './schemas.js'
import { Vt } from './vt.js'

let database: FreshDatabase
let env: NodeJS.ProcessEnv
beforeAll(async () => {
  database = await freshDatabase()
  env = { DATABASE_URL: database.url, HOLDFAST_INTERVAL: '250ms' }
})
afterAll(() => database.drop())

const sees = (running: Running) => eventually(() => new Vt(running.stdout).text)

/** Returns the pid of the Holdfast process, which runs under script(1) and a shell. */
function pidOf(running: Running): number {
  const own = descendantsOf(running.pid).find(({ pid }) =>
    readFileSync(`/proc/${pid}/cmdline`, 'utf8').startsWith(`${process.execPath}\0${bin}`),
  )
  return own!.pid
}

describe('without a screen', () => {
  test('top prints one report, as text or as one document', async () => {
    const holdfast = await open({ url: database.url, namespace: 'top' })
    await holdfast.locks.acquire('nightly report')
    const { status, stdout, stderr } = await run(['top'], env)
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    expect(stdout).toMatch(/^\S+, PostgreSQL [\d.]+.*, \S+Z\n\nINSTANCES 1\nNAME .*\n\S+\/\d+ {2}alive {2}top /)
    expect(stdout).toMatch(/\n\nLOCKS 1\nNAME .*\nnightly report {2}top {8}exclusive {2}/)
    expect(stdout).toMatch(/\n\nLEASES none\n\nSCHEDULES none\n\nQUEUES none\n\nPROBLEMS none\n$/)
    const json = fits('top', JSON.parse((await run(['top', '--json'], env)).stdout)) as { locks: unknown[] }
    expect(json.locks).toMatchObject([{ label: 'nightly report', holder: { instance: holdfast.id } }])
    await Promise.all(Array.from({ length: 24 }, (_, n) => holdfast.locks.acquire(`export ${n}`)))
    expect((await run(['top'], env)).stdout).toMatch(/\n\nLOCKS 25\n(.*\n){21}… 5 more: holdfast lock ls\n/)
    const other = await run(['top', '--jsonl', '--once', '--namespace', 'other'], env)
    expect(fitsRow('top', JSON.parse(other.stdout))).toMatchObject({ locks: [], instances: [] })
  })

  test.runIf(process.platform === 'linux')(
    'top shows no screen on a terminal that cannot move the cursor, nor with --once',
    async () => {
      for (const [args, term] of [
        [[], 'dumb'],
        [['--once'], 'xterm'],
      ] as const) {
        const { status, stdout } = await startOnTerminal(['top', ...args], { ...env, TERM: term, NO_COLOR: '1' }).ended
        expect(stdout).not.toContain('\x1b')
        expect(stdout).toContain('\r\nLEASES none\r\n')
        expect(status).toBe(0)
      }
    },
  )

  test('top refuses an interval below 250ms', async () => {
    const { status, stderr } = await run(['top', '--interval', '10ms'], env)
    expect(stderr).toContain('Expected --interval to be a duration of at least 250ms')
    expect(status).toBe(2)
  })
})

// Only script(1) of util-linux can create the terminal.
describe.runIf(process.platform === 'linux')('on a terminal', () => {
  test('top handles keys, another size, small updates, suspension and the end', { timeout: 60_000 }, async () => {
    const holdfast = await open({ url: database.url, namespace: 'live' })
    await holdfast.locks.acquire('nightly report')
    const top = startOnTerminal(['top', '--namespace', 'live'], env)
    await sees(top).toMatch(/^holdfast top .*\n1 INSTANCES 1 .*\n> \S+\/\d+ +alive/)
    expect(new Vt(top.stdout)).toMatchObject({ isAlternate: true, isCursorShown: false })

    top.type('2')
    await sees(top).toMatch(/^> nightly report/m)
    await holdfast.locks.acquire('חשבונית:42')
    await holdfast.locks.acquire('請求書')
    await sees(top).toMatch(/^ {2}請求書/m)
    top.type('\r')
    await sees(top).toContain("more            holdfast lock show --namespace live 'nightly report'")
    top.type('\x1b[B')
    await sees(top).not.toContain("'nightly report'")
    top.type('q?')
    await sees(top).toContain('q                       quit')
    top.type('q/report\r')
    await sees(top).toMatch(/filtered by "report"/)
    expect(new Vt(top.stdout).text).not.toContain('請求書')

    top.type('p')
    await sees(top).toMatch(/^holdfast top .*paused/)
    const weekly = await holdfast.locks.acquire('weekly report')
    await stays('a paused screen shows nothing new', () => !new Vt(top.stdout).text.includes('weekly'), 800)
    top.type('p')
    await sees(top).toContain('weekly report')
    await weekly.release()
    await sees(top).not.toContain('weekly report')

    const pid = pidOf(top)
    const size = (columns: string, rows: string) =>
      execFileSync('stty', ['-F', readlinkSync(`/proc/${pid}/fd/0`), 'cols', columns, 'rows', rows])
    size('160', '50')
    await sees(top).toMatch(/^1 INSTANCES 1 .* │ 4 SCHEDULES none/m)
    await eventually(() => new Vt(top.stdout).lines.length).toBe(50)
    size('60', '10')
    await eventually(() => new Vt(top.stdout).lines.length).toBe(10)
    size('80', '24')
    await eventually(() => new Vt(top.stdout).lines.length).toBe(24)

    // Two updates of a fleet without changes send less than one screen.
    const shownTime = () => new Vt(top.stdout).lines[0]!.slice(14, 22)
    const [whole, before] = [Buffer.byteLength(new Vt(top.stdout).text), Buffer.byteLength(top.stdout)]
    const first = shownTime()
    await eventually(() => shownTime() !== first).toBe(true)
    const second = shownTime()
    await eventually(() => shownTime() !== second).toBe(true)
    expect(Buffer.byteLength(top.stdout) - before).toBeLessThan(whole)

    top.type('\x1a')
    await eventually(() => new Vt(top.stdout).isAlternate).toBe(false)
    const state = () => /\) (\w)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))![1]
    await eventually(state).toBe('T')
    process.kill(pid, 'SIGCONT')
    await sees(top).toMatch(/^2 LOCKS 1 /m)
    expect(new Vt(top.stdout).isAlternate).toBe(true)

    top.type('q')
    expect((await top.ended).status).toBe(0)
    expect(new Vt(top.stdout)).toMatchObject({ isAlternate: false, isCursorShown: true, text: '' })
  })

  test.each([
    ['SIGTERM', 143],
    ['SIGHUP', 129],
  ] as const)('%s ends top and restores the terminal', async (signal, code) => {
    const top = startOnTerminal(['top'], env)
    await sees(top).toContain('1 INSTANCES')
    process.kill(pidOf(top), signal)
    expect((await top.ended).status).toBe(code)
    expect(new Vt(top.stdout)).toMatchObject({ isAlternate: false, isCursorShown: true, text: '' })
  })

  test('top reports that the database does not respond, and continues after a restart', async () => {
    const server = await ownServer()
    const url = await ownDatabase(server)
    const top = startOnTerminal(['top'], { ...env, DATABASE_URL: url })
    const lines = start(['top', '--jsonl'], { ...env, DATABASE_URL: url })
    await sees(top).toContain('1 INSTANCES')
    await lines.says(/\n/)
    await server.stop('immediate')
    await sees(top).toMatch(/^ No response.*, still trying: The database/m)
    expect(new Vt(top.stdout).text).toContain('1 INSTANCES')
    await eventually(() => lines.stderr).toMatch(/^holdfast: The database .*; trying again\n$/)
    const { dataDir, port } = server
    const again = await startEmbedded({ binDir: inject('preparedServer').binDir, dataDir, port })
    onTestFinished(() => again.stop('immediate'))
    await sees(top).toContain('? help  q quit')
    await eventually(() => lines.stderr).toMatch(/trying again\nThe database responds again\.\n$/)
    const printed = lines.stdout.length
    await eventually(() => lines.stdout.length).toBeGreaterThan(printed)
    for (const line of lines.stdout.split('\n').slice(0, -1)) fitsRow('top', JSON.parse(line))
    top.type('q')
    expect((await top.ended).status).toBe(0)
  })
})
