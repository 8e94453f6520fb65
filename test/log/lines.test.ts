// Each event that is logged, as a line, and what the line does with hostile text.
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { type EventName, Events, type HoldfastEvents } from '../../src/base/index.js'
import { DatabaseUnreachableError, PermissionError } from '../../src/index.js'
import { EventLog, type Logger } from '../../src/log/index.js'

/** A log that collects the lines of a message logger. */
function collect() {
  const written: [level: string, line: string][] = []
  const logger: Logger = {
    info: (line: string) => written.push(['info', line]),
    warn: (line: string) => written.push(['warn', line]),
    error: (line: string) => written.push(['error', line]),
  }
  const events = new Events()
  const log = new EventLog({ events, log: logger, namespace: 'default', instance: { name: 'worker-3' } })
  onTestFinished(() => log.close())
  return { written, events }
}

/** The line for one event, without its level. */
function lineOf<Name extends EventName>(name: Name, event: HoldfastEvents[Name]): string | undefined {
  const { written, events } = collect()
  events.emitter(name)?.(event)
  return written.map(([level, line]) => `${level} ${line}`).join('\n') || undefined
}

const job = { id: 4711, kind: 'send-email', queue: 'mail', attempt: 2, maxAttempts: 5, durationMs: 12 }
const run = { name: 'nightly report', tick: new Date('2026-01-02T03:00:00Z'), extra: false, attempt: 1, durationMs: 1 }
const unreachable = new DatabaseUnreachableError('No response for 9s')
const retried = { ...job, state: 'retried', retryInMs: 8_000 } as const

describe('an event is one line', () => {
  test.each<[EventName, unknown, string | undefined]>([
    [
      'job.failed',
      { ...retried, error: new Error('SMTP timeout') },
      'warn holdfast: job send-email 4711 failed (attempt 2 of 5, retry in 8s): Error: SMTP timeout',
    ],
    [
      'job.failed',
      { ...job, attempt: 5, state: 'buried', error: new TypeError('x') },
      'error holdfast: job send-email 4711 was buried (attempt 5 of 5): TypeError: x',
    ],
    [
      'job.failed',
      { ...job, state: 'buried', error: undefined },
      'error holdfast: job send-email 4711 was buried (attempt 2 of 5, not retryable): undefined',
    ],
    [
      'job.crashed',
      { id: 7, kind: 'resize', queue: 'x', crashes: 3 },
      'error holdfast: job resize 7 was buried: 3 of its workers died while running it',
    ],
    [
      'job.expired',
      { id: 7, kind: 'resize', queue: 'x', startBy: new Date('2030-01-31T18:00Z') },
      'warn holdfast: job resize 7 expired: no worker had a free slot before 2030-01-31T18:00:00.000Z',
    ],
    [
      'instance.name-taken',
      { wanted: 'worker-3', name: 'worker-3#2' },
      'warn holdfast: another live instance already uses the name "worker-3", so this instance uses the name "worker-3#2"',
    ],
    ['job.ended', { ...job, state: 'returned' }, undefined],
    [
      'job.ended',
      { ...job, state: 'lost', durationMs: 12_000 },
      'warn holdfast: job send-email 4711 was lost after 12s: another attempt will start in the fleet',
    ],
    [
      'job.unserved',
      { kind: 'resize', queue: 'images', unserved: 'kind', jobs: 12, forMs: 25_123 },
      'warn holdfast: no worker has a definition for job kind "resize" in queue "images": 12 jobs are waiting, for up to 25s',
    ],
    [
      'job.unserved',
      { kind: 'resize', queue: 'images', unserved: 'queue', jobs: 1, forMs: 25_000 },
      'warn holdfast: no worker serves job kind "resize" in queue "images": 1 job is waiting, for up to 25s',
    ],
    [
      'worker.failed',
      { queues: ['mail', 'post', 'fax'], error: unreachable },
      'warn holdfast: worker of queues "mail" and 2 more cannot claim jobs: DatabaseUnreachableError: No response for 9s',
    ],
    [
      'worker.failed',
      { queues: ['mail'], error: new PermissionError(new Error('permission denied for table claim')) },
      'error holdfast: worker of queue "mail" cannot claim jobs: PermissionError: The role lacks a privilege: permission denied for table claim. ' +
        "Run `holdfast migrate --application <role>` as the schema's owner. `holdfast doctor` prints the required SQL.",
    ],
    [
      'schedule.failed',
      { ...run, error: new Error('x') },
      'error holdfast: schedule "nightly report" failed (tick 2026-01-02T03:00:00.000Z, attempt 1): Error: x',
    ],
    ['schedule.ended', { ...run, state: 'done' }, undefined],
    [
      'schedule.ended',
      { ...run, state: 'lost' },
      'warn holdfast: schedule "nightly report" was lost after 1ms (tick 2026-01-02T03:00:00.000Z): the run will start again in the fleet',
    ],
    ['scheduler.failed', { error: new Error('x') }, 'error holdfast: schedules cannot start: Error: x'],
    ['election.failed', { name: 'indexer', error: 'x' }, 'error holdfast: campaign "indexer" failed: x'],
    ['share.failed', { share: 'feeds', error: new Error('x') }, 'error holdfast: share "feeds" failed: Error: x'],
    [
      'instance.lost',
      { reason: unreachable },
      'warn holdfast: session lost, reconnecting: DatabaseUnreachableError: No response for 9s',
    ],
    [
      'instance.reconnected',
      { lostForMs: 1_234 },
      'info holdfast: session regained after 1.2s; locks and permits held before are lost',
    ],
    ['instance.connect-failed', { error: unreachable }, undefined],
    ['instance.connect-failed', { error: new Error('x') }, 'error holdfast: cannot connect: Error: x'],
    [
      'lock.lost',
      { names: ['order:1'], keys: ['1'], mode: 'exclusive', fence: 1, heldMs: 2_000, reason: unreachable },
      'error holdfast: lock "order:1" was lost after 2s: DatabaseUnreachableError: No response for 9s',
    ],
    ['lock.lost', { names: ['election/indexer'], heldMs: 2_000, reason: unreachable }, undefined],
    ['lease.lost', { name: 'election/indexer', heldMs: 2_000, reason: unreachable }, undefined],
    [
      'lease.lost',
      { name: 'order:1', key: '1', fence: 1, heldMs: 2_000, reason: unreachable },
      'error holdfast: lease "order:1" was lost after 2s: DatabaseUnreachableError: No response for 9s',
    ],
    [
      'limit.lost',
      { name: 'api', weight: 1, fence: 1, heldMs: 2_000, reason: unreachable },
      'error holdfast: permit of limit "api" was lost after 2s: DatabaseUnreachableError: No response for 9s',
    ],
    [
      'election.lost',
      { name: 'indexer', term: 7, ledMs: 2_000, reason: unreachable },
      'error holdfast: leadership of election "indexer" (term 7) was lost after 2s: DatabaseUnreachableError: No response for 9s',
    ],
    ['delivery.failed', { key: 'k', durationMs: 1, error: new Error('x') }, undefined],
    ['lock.refused', { names: ['order:1'], keys: ['1'], mode: 'exclusive', waitedMs: 1 }, undefined],
  ])('%s: %#', (name, event, line) => {
    expect(lineOf(name, event as never)).toBe(line)
  })
})

describe('an error message', () => {
  const ofError = (error: unknown) => lineOf('job.failed', { ...retried, error })!
  const start = 'warn holdfast: job send-email 4711 failed (attempt 2 of 5, retry in 8s): '

  test('with line breaks becomes one line', () => {
    expect(ofError(new Error('one\r\n  two\u2028three\n'))).toBe(`${start}Error: one two three`)
  })

  test('cannot control the terminal or change the direction of the text', () => {
    expect(ofError(new Error('\x1b[31mred\x07 \u202egnp.exe\0'))).toBe(
      `${start}Error: \\u001b[31mred\\u0007 \\u202egnp.exe\uFFFD`,
    )
  })

  test('is limited in length and well formed', () => {
    const line = ofError(new Error(`${'\u{1F600}'.repeat(3_000)}`))
    expect(line.length).toBeLessThan(700)
    expect(line.endsWith('…')).toBe(true)
    expect(line.isWellFormed()).toBe(true)
    expect(ofError(new Error('x'.repeat(1_000_000))).length).toBeLessThan(700)
  })

  test.each<[string, unknown]>([
    [
      'that throws when it is read',
      Object.defineProperty(new Error('x'), 'message', {
        get() {
          throw new Error('trap')
        },
      }),
    ],
    ['of a revoked proxy', revoked()],
    [
      'that is an object without a message',
      {
        get message() {
          throw new Error('trap')
        },
      },
    ],
    ['of an object without a prototype', Object.create(null)],
    ['that is a symbol', Symbol('x')],
  ])('%s does not prevent the line', (_, error) => {
    expect(ofError(error)).toContain(start.slice(0, -1))
  })

  test('in the name of a job or a lock is escaped and limited as well', () => {
    const kind = `a\n\x1b[2J${'b'.repeat(300)}`
    const line = lineOf('job.failed', { ...retried, kind, error: new Error('x') })!
    expect(line).toMatch(/^warn holdfast: job "a \\\\u001b\[2Jb+…" 4711 failed/)
    expect(line.length).toBeLessThan(250)
  })
})

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}

describe('where a line goes', () => {
  function toStderr(log: Logger | false | undefined) {
    const lines: string[] = []
    const spy = vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
      lines.push(String(text))
      return true
    })
    onTestFinished(() => spy.mockRestore())
    const events = new Events()
    const eventLog = new EventLog({ events, log, namespace: 'default', instance: { name: 'worker-3' } })
    onTestFinished(() => eventLog.close())
    const fail = () => events.emitter('job.failed')?.({ ...retried, error: new Error('x') })
    return { lines, events, fail }
  }

  test('to stderr by default, as one line with a line break', () => {
    const { lines, fail } = toStderr(undefined)
    fail()
    expect(lines).toEqual(['holdfast: job send-email 4711 failed (attempt 2 of 5, retry in 8s): Error: x\n'])
  })

  test('nowhere with log: false, and no payload is created', () => {
    const { lines, events, fail } = toStderr(false)
    expect(events.emitter('job.failed')).toBeUndefined()
    fail()
    expect(lines).toEqual([])
  })

  test('not to stderr while the program has a listener for the event', () => {
    const { lines, events, fail } = toStderr(undefined)
    const stops = [events.handle('job.failed', () => {}), events.handle('job.failed', () => {})]
    fail()
    stops[0]!()
    stops[0]!()
    fail()
    expect(lines).toEqual([])
    events.emitter('scheduler.failed')?.({ error: new Error('other') })
    expect(lines).toHaveLength(1)
    stops[1]!()
    fail()
    expect(lines).toHaveLength(2)
  })

  test("to stderr although Holdfast's own telemetry listens", () => {
    const { lines, events, fail } = toStderr(undefined)
    events.on('job.failed', () => {})
    fail()
    expect(lines).toHaveLength(1)
  })

  test('to a logger even if the program has a listener, and not to stderr', () => {
    const written: unknown[] = []
    const logger = { warn: (...given: unknown[]) => written.push(given), error: () => {} }
    const { lines, events, fail } = toStderr(logger)
    events.handle('job.failed', () => {})
    fail()
    expect(written).toEqual([['holdfast: job send-email 4711 failed (attempt 2 of 5, retry in 8s): Error: x']])
    expect(lines).toEqual([])
  })
})
