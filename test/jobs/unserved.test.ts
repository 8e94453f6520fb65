// The event `job.unserved`: jobs of this instance that no worker in the fleet handles.
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { Events, type HoldfastEvents } from '../../src/base/index.js'
import { examine } from '../../src/doctor/index.js'
import { defineJob } from '../../src/index.js'
import { UnservedCheck } from '../../src/jobs/unserved.js'
import { openPgPool } from '../../src/postgres/index.js'
import { sqlPool, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { runsAll } from '../setup/variants.js'
import { work } from './fixture.js'

type Unserved = HoldfastEvents['job.unserved']

const define = (kind: string, queue = 'default') => defineJob<unknown>(kind, { queue, run: () => {} })

test.skipIf(!runsAll)(
  'within half a minute, an instance reports its jobs that no worker handles, and the doctor agrees',
  {
    timeout: 90_000,
  },
  async () => {
    const url = await databaseUrl()
    const from = performance.now()
    const [holdfast, worker, pooled] = await Promise.all([
      open({ url }),
      open({ url }),
      open({ pool: sqlPool({ connectionString: url }), anchor: 'none' }),
    ])
    const events: Unserved[] = []
    holdfast.on('job.unserved', (event) => events.push(event))
    const pooledEvents: Unserved[] = []
    pooled.on('job.unserved', (event) => pooledEvents.push(event))
    const lines: string[] = []
    const logged = await open({ url, log: { warn: (line) => lines.push(line), error: () => {} } })
    await work(worker, [define('served', 'mail')]).ready()

    await holdfast.jobs.enqueueMany(define('typo', 'mail'), [1, 2, 3])
    await holdfast.jobs.enqueue(define('served', 'mail'), 1)
    await holdfast.jobs.enqueue(define('paused', 'paused'), 1)
    await holdfast.jobs.pause('paused')
    await holdfast.jobs.enqueue(define('later', 'nowhere'), 1, { delay: '1h' })
    await holdfast.jobs.enqueue(define('handled soon', 'nowhere'), 1)
    await pooled.jobs.enqueue(define('alone', 'nowhere'), 1)
    await logged.jobs.enqueue(define('logged', 'nowhere'), 1)
    await logged.jobs.enqueueWorkflow((workflow) => void workflow.add(define('logged', 'nowhere'), 2))
    const soon = setTimeout(() => work(worker, [define('handled soon', 'nowhere')]), 10_000)

    await until('everything is reported', () => events[0] && pooledEvents[0] && lines[0], 40_000)
    clearTimeout(soon)
    expect(performance.now() - from).toBeLessThan(40_000)
    expect(events).toEqual([{ kind: 'typo', queue: 'mail', unserved: 'kind', jobs: 3, forMs: expect.any(Number) }])
    expect(events[0]!.forMs).toBeGreaterThan(20_000)
    expect(pooledEvents).toMatchObject([{ kind: 'alone', queue: 'nowhere', unserved: 'kind', jobs: 1 }])
    expect(lines).toEqual([
      expect.stringMatching(
        /^holdfast: no worker has a definition for job kind "logged" in queue "nowhere": 2 jobs are waiting, for up to [23]\ds$/,
      ),
    ])

    const database = openPgPool({ connectionString: url })
    try {
      const found = await until(
        'the doctor reports the jobs',
        async () => {
          const { findings } = await examine({ database })
          return findings.find(({ id }) => id === 'kind-unhandled')
        },
        20_000,
      )
      expect(found).toMatchObject({ severity: 'risky' })
      expect(performance.now() - from).toBeLessThan(60_000)
      const { findings } = await examine({ database, toleranceMs: 600_000 })
      expect(findings.filter(({ id }) => id === 'kind-unhandled')).toEqual([])
    } finally {
      await database.close()
    }
  },
)

describe('the time of the checks', () => {
  beforeEach(() => {
    vi.useFakeTimers()
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  /** A check whose statement returns these rows. */
  function checked(rowsOf: (kinds: string[]) => object[] | Error) {
    const events = new Events()
    const emitted: Unserved[] = []
    events.on('job.unserved', (event) => emitted.push(event))
    const asked: string[][] = []
    const store = {
      run: async (_: string, [, kinds]: [string, string[]]) => {
        asked.push(kinds)
        const rows = rowsOf(kinds)
        if (rows instanceof Error) throw rows
        return rows
      },
    }
    const check = new UnservedCheck(store as never, { keyOf: (queue: string) => queue } as never, events)
    const enqueue = (kind: string) => check.noteEnqueued(define(kind) as never)
    return { check, asked, emitted, enqueue, events }
  }

  const unserved = (kinds: string[], jobs = 1) =>
    kinds.map((kind) => ({ queue: 'default', kind, unserved: 'queue', jobs, for_ms: 25_000 }))

  test('is 20 and 25 seconds after the first job, and then not for 5 minutes', async () => {
    const { asked, emitted, enqueue } = checked((kinds) => unserved(kinds))
    enqueue('a')
    await vi.advanceTimersByTimeAsync(19_000)
    enqueue('a')
    expect(asked).toEqual([])
    await vi.advanceTimersByTimeAsync(1_000)
    expect(asked).toEqual([['a']])
    expect(emitted).toEqual([])
    await vi.advanceTimersByTimeAsync(5_000)
    expect(asked).toHaveLength(2)
    expect(emitted).toEqual([{ kind: 'a', queue: 'default', unserved: 'queue', jobs: 1, forMs: 25_000 }])
    for (let minutes = 0; minutes < 4; minutes++) {
      enqueue('a')
      await vi.advanceTimersByTimeAsync(60_000)
    }
    expect(asked).toHaveLength(2)
    await vi.advanceTimersByTimeAsync(60_000)
    enqueue('a')
    await vi.advanceTimersByTimeAsync(26_000)
    expect(emitted).toHaveLength(2)
  })

  test('is once for a served kind in 5 minutes', async () => {
    const { asked, emitted, enqueue } = checked(() => [])
    for (let seconds = 0; seconds < 300; seconds++) {
      enqueue('a')
      await vi.advanceTimersByTimeAsync(1_000)
    }
    expect(asked).toHaveLength(1)
    expect(emitted).toEqual([])
  })

  test('is a minute later if no job is ready', async () => {
    const { asked, emitted, enqueue } = checked((kinds) => unserved(kinds, 0))
    enqueue('a')
    await vi.advanceTimersByTimeAsync(20_000)
    enqueue('a')
    await vi.advanceTimersByTimeAsync(61_000)
    expect(asked).toHaveLength(1)
    enqueue('a')
    await vi.advanceTimersByTimeAsync(20_000)
    expect(asked).toHaveLength(2)
    expect(emitted).toEqual([])
  })

  test('does not confirm jobs that a worker handles at the second check', async () => {
    let rows = unserved(['a'])
    const { emitted, enqueue } = checked(() => rows)
    enqueue('a')
    await vi.advanceTimersByTimeAsync(20_000)
    rows = []
    await vi.advanceTimersByTimeAsync(60_000)
    expect(emitted).toEqual([])
  })

  test('follows a check that failed', async () => {
    let isBroken = true
    const { asked, emitted, enqueue } = checked((kinds) => (isBroken ? new Error('x') : unserved(kinds)))
    enqueue('a')
    await vi.advanceTimersByTimeAsync(20_000)
    isBroken = false
    await vi.advanceTimersByTimeAsync(25_000)
    expect(asked).toHaveLength(3)
    expect(emitted).toHaveLength(1)
  })

  test('is the own time of each kind', async () => {
    const { asked, enqueue } = checked(() => [])
    enqueue('a')
    await vi.advanceTimersByTimeAsync(15_000)
    enqueue('b')
    await vi.advanceTimersByTimeAsync(5_000)
    expect(asked).toEqual([['a']])
    await vi.advanceTimersByTimeAsync(15_000)
    expect(asked).toEqual([['a'], ['b']])
  })

  test('never comes if nothing is enqueued, nothing listens, or the instance has closed', async () => {
    const { check, asked, enqueue } = checked(() => [])
    await vi.advanceTimersByTimeAsync(600_000)
    enqueue('a')
    check.close()
    enqueue('b')
    const silent = new UnservedCheck({ run: () => asked.push([]) } as never, {} as never, new Events())
    silent.noteEnqueued(define('a') as never)
    await vi.advanceTimersByTimeAsync(600_000)
    expect(asked).toEqual([])
    expect(vi.getTimerCount()).toBe(0)
  })
})
