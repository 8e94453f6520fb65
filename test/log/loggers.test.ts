// The `log` option: the loggers that it accepts, and the limit on the number of lines.
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import pino from 'pino'
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { Events } from '../../src/base/index.js'
import { Holdfast, UsageError } from '../../src/index.js'
import { EventLog, type Logger } from '../../src/log/index.js'
import { caught } from '../setup/facts.js'
import { typescript } from '../setup/typescript.js'

const job = { id: 4711, kind: 'send-email', queue: 'mail', attempt: 2, maxAttempts: 5, durationMs: 12 }
const retried = { ...job, state: 'retried', retryInMs: 8_000 } as const
const line = 'holdfast: job send-email 4711 failed (attempt 2 of 5, retry in 8s): Error: x'

function logTo(log: Logger | undefined) {
  const events = new Events()
  const eventLog = new EventLog({ events, log, namespace: 'billing', instance: { name: 'worker-3' } })
  onTestFinished(() => eventLog.close())
  const fail = (error: unknown = new Error('x'), kind = 'send-email') =>
    events.emitter('job.failed')?.({ ...retried, kind, error })
  return { events, eventLog, fail }
}

function pinoLines() {
  const lines: Record<string, unknown>[] = []
  const logger = pino({ base: null }, { write: (text: string) => lines.push(JSON.parse(text)) })
  return { lines, logger }
}

describe('a logger of pino', () => {
  test('receives the fields of the event, the error and the line', () => {
    const { lines, logger } = pinoLines()
    const { fail } = logTo(logger)
    fail(new Error('x', { cause: new Error('y') }))
    const { state, retryInMs } = retried
    expect(lines).toEqual([
      {
        ...job,
        state,
        retryInMs,
        event: 'job.failed',
        namespace: 'billing',
        instance: 'worker-3',
        level: 40,
        time: expect.any(Number),
        msg: line,
        err: expect.objectContaining({ type: 'Error', message: 'x: y', stack: expect.stringContaining('caused by') }),
      },
    ])
  })

  test('receives errors at level 50, and a regained session at level 30', () => {
    const { lines, logger } = pinoLines()
    const { events } = logTo(logger)
    events.emitter('scheduler.failed')?.({ error: new Error('x') })
    events.emitter('instance.reconnected')?.({ lostForMs: 5 })
    expect(lines.map(({ level }) => level)).toEqual([50, 30])
  })

  test('receives a line for every value that a handler can throw', () => {
    const { lines, logger } = pinoLines()
    const { fail } = logTo(logger)
    const trap = () => {
      throw new Error('trap')
    }
    const { proxy, revoke } = Proxy.revocable({}, {})
    revoke()
    const hostile = Object.defineProperty(new Error('x'), 'cause', { get: trap, enumerable: true })
    for (const error of [
      proxy,
      hostile,
      {
        get message() {
          return trap()
        },
      },
      undefined,
      Symbol('x'),
    ])
      fail(error)
    expect(lines).toHaveLength(5)
    expect(lines[1]).toMatchObject({ msg: line, err: { message: 'x' } })
  })

  test('may be a child logger', () => {
    const { lines, logger } = pinoLines()
    logTo(logger.child({ module: 'queue' })).fail()
    expect(lines).toMatchObject([{ module: 'queue', msg: line }])
  })
})

describe('another logger', () => {
  test('receives only the line', () => {
    const logger = { warn: vi.fn(), error: vi.fn() }
    const { events, fail } = logTo(logger)
    fail()
    events.emitter('scheduler.failed')?.({ error: new Error('x') })
    expect(logger.warn.mock.calls).toEqual([[line]])
    expect(logger.error.mock.calls).toEqual([['holdfast: schedules cannot start: Error: x']])
  })

  test('receives information as a warning if the logger has no function info', () => {
    const logger = { warn: vi.fn(), error: vi.fn() }
    logTo(logger).events.emitter('instance.reconnected')?.({ lostForMs: 5 })
    expect(logger.warn).toHaveBeenCalledTimes(1)
  })

  test('is called with its own `this`', () => {
    class Own {
      readonly lines: string[] = []
      warn(text: string) {
        this.lines.push(text)
      }
      error(text: string) {
        this.lines.push(text)
      }
    }
    const logger = new Own()
    logTo(logger).fail()
    expect(logger.lines).toEqual([line])
  })

  test('that throws or rejects affects nothing', async () => {
    const warn = vi.fn()
    warn.mockImplementationOnce(() => {
      throw new Error('disk full')
    })
    warn.mockImplementationOnce(async () => {
      throw new Error('disk full')
    })
    const { fail } = logTo({ warn, error: warn })
    for (let n = 0; n < 3; n++) fail()
    // An unhandled rejection would end this run.
    await new Promise((resolve) => setImmediate(resolve))
    expect(warn).toHaveBeenCalledTimes(3)
  })
})

test.each<[unknown, string]>([
  [true, 'true (boolean)'],
  ['stderr', '"stderr" (string)'],
  [{}, 'an object (Object)'],
  [{ warn: () => {} }, 'an object (Object)'],
  [null, 'null'],
  [() => {}, 'a function'],
])('%o as a log throws a UsageError', async (log, got) => {
  const error = await caught(UsageError, Holdfast.open({ url: 'postgres://x', log } as never))
  expect(error.message).toBe(`Expected log to be false, or a logger with the functions warn and error, got ${got}`)
  expect(error.hint).toContain('log: console')
})

describe('the limit', () => {
  beforeEach(() => {
    vi.useFakeTimers()
    return () => vi.useRealTimers()
  })

  function counted() {
    const lines: string[] = []
    const write = (text: string) => lines.push(text)
    return { lines, ...logTo({ warn: write, error: write }) }
  }

  test('is 10 lines in 10 seconds, and the number of the other lines follows', () => {
    const { lines, fail } = counted()
    for (let n = 0; n < 322; n++) fail()
    expect(lines).toHaveLength(10)
    vi.advanceTimersByTime(10_000)
    expect(lines.slice(10)).toEqual(['holdfast: … and 312 more like this in the last 10s: job send-email failed'])
    fail()
    expect(lines).toHaveLength(12)
  })

  test('reports nothing if no line was suppressed', () => {
    const { lines, fail } = counted()
    for (let n = 0; n < 10; n++) fail()
    vi.advanceTimersByTime(60_000)
    expect(lines).toHaveLength(10)
  })

  test('counts each kind of message on its own', () => {
    const { lines, events, fail } = counted()
    for (let n = 0; n < 20; n++) fail()
    fail(undefined, 'other')
    events.emitter('scheduler.failed')?.({ error: new Error('x') })
    expect(lines).toHaveLength(12)
  })

  test('reports the number of suppressed lines when the instance closes', () => {
    const { lines, eventLog, fail } = counted()
    for (let n = 0; n < 11; n++) fail()
    eventLog.close()
    expect(lines.at(-1)).toContain('… and 1 more like this')
    fail()
    expect(lines).toHaveLength(11)
  })

  test('leaves no listener on the process when everything has been reported', () => {
    const before = process.listenerCount('exit')
    const [one, other] = [counted(), counted()]
    for (const { fail } of [one, other]) for (let n = 0; n < 11; n++) fail()
    expect(process.listenerCount('exit')).toBe(before + 1)
    one.eventLog.close()
    vi.advanceTimersByTime(10_000)
    expect(process.listenerCount('exit')).toBe(before)
    expect([one, other].map(({ lines }) => lines.length)).toEqual([11, 11])
  })

  test('holds for any number of kinds', () => {
    const { lines, fail } = counted()
    for (let n = 0; n < 3_000; n++) fail(undefined, `kind ${n}`)
    expect(lines.length).toBeLessThanOrEqual(1_010)
    vi.advanceTimersByTime(10_000)
    expect(lines.at(-1)).toMatch(/and 1990 more like this in the last 10s$/)
  })
})

describe('in a process of its own', () => {
  /** Runs the code with an event log to stderr as `log`, and a function `fail` that emits one event. */
  function run(code: string, stderr: 'pipe' | 'closed' = 'pipe') {
    const base = new URL('../../dist/base/index.js', import.meta.url).href
    const log = new URL('../../dist/log/index.js', import.meta.url).href
    const program = `
      const { Events } = await import('${base}')
      const { EventLog } = await import('${log}')
      const events = new Events()
      const log = new EventLog({ events, log: undefined, namespace: 'default', instance: { name: 'worker-3' } })
      const fail = () => events.emitter('scheduler.failed')({ error: new Error('x') })
      ${code}
      console.log('end')`
    const args = [...typescript, '--input-type=module', '-e', program]
    const shell = [
      '-c',
      `exec "$@"${stderr === 'closed' ? ' 2> >(exec sleep 0)' : ''}`,
      'bash',
      process.execPath,
      ...args,
    ]
    const cwd = fileURLToPath(new URL('../..', import.meta.url))
    const from = performance.now()
    const ended = spawnSync('bash', shell, { cwd, encoding: 'utf8', timeout: 20_000 })
    return { ...ended, ms: performance.now() - from }
  }

  test('the timer does not keep the process running, and the process reports suppressed lines when it exits', () => {
    const { status, stderr, ms } = run('for (let n = 0; n < 15; n++) fail()')
    expect(status).toBe(0)
    expect(ms).toBeLessThan(8_000)
    expect(stderr.split('\n').filter(Boolean)).toHaveLength(11)
    expect(stderr).toContain('holdfast: … and 5 more like this in the last 10s: schedules cannot start\n')
  })

  test('process.exit() does not lose the number of suppressed lines', () => {
    expect(run('for (let n = 0; n < 15; n++) fail(); process.exit(3)')).toMatchObject({
      status: 3,
      stderr: expect.stringContaining('… and 5 more like this'),
    })
  })

  test('a closed stderr does not end the process', () => {
    const wait = 'await new Promise((resolve) => setTimeout(resolve, 300))'
    expect(run(`${wait}; fail(); ${wait}; fail(); ${wait}`, 'closed')).toMatchObject({ status: 0, stdout: 'end\n' })
  })
})
