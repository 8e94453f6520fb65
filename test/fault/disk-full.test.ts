import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { Disk } from '../../faults/disk.ts'
import { startEmbedded } from '../../src/embedded/index.js'
import { DatabaseError, defineJob, HoldfastError } from '../../src/index.js'
import { work } from '../jobs/fixture.js'
import { sql, until } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { runsAll } from '../setup/variants.js'

// The disk of the whole server is full for more than ten seconds. First, only writes fail. Then the server also needs a new WAL file, crashes,
// and cannot start again. `npm run faults -- --faults 'fill the disk'` does this to a fleet that uses all rooms.

const fullMs = 10_000
const isRefused = (error: NodeJS.ErrnoException) => error.code === 'ECONNREFUSED'
const diskMegabytes = 512

test.skipIf(!runsAll)(
  'a full disk loses no job and runs none twice, its errors are retryable, and work continues afterwards',
  {
    timeout: 120_000,
  },
  async (context) => {
    const disk = Disk.mount(diskMegabytes)
    if (!disk) return context.skip('The test needs a small file system, and none can be mounted here')
    onTestFinished(() => disk.unmount())
    const server = await startEmbedded({ dataDir: join(disk.path, 'data') })
    onTestFinished(() => server.stop('immediate'))
    const url = await server.createDatabase('app')
    await sql(url, 'create table effect (n integer); create table filler (x text)')
    const holdfast = await open({ url, expiry: '2s' })
    const note = defineJob('note', {
      maxCrashes: 1_000,
      retry: { attempts: 1_000, backoff: 50, maxBackoff: 500 },
      run: ({ n }: { n: number; padding: string }, { tx }) => tx.query('insert into effect values ($1)', [n]),
    })
    work(holdfast, [note])

    const isOver = new AbortController()
    const acknowledged: number[] = []
    const fences: number[] = []
    const errors: unknown[] = []
    const repeat = async (step: () => Promise<unknown>) => {
      while (!isOver.signal.aborted) {
        await step().catch((error) => errors.push(error))
        await sleep(10)
      }
    }
    let count = 0
    const loops = [
      repeat(async () => {
        const n = ++count
        await holdfast.jobs.enqueue(note, { n, padding: 'x'.repeat(2_000) })
        acknowledged.push(n)
      }),
      repeat(() => holdfast.locks.with('name', { wait: '1s' }, ({ fence }) => void fences.push(fence))),
      repeat(() => holdfast.leases.with('lease', { ttl: '2s', wait: '1s' }, ({ fence }) => void fences.push(fence))),
    ]
    await until('jobs are enqueued', () => acknowledged.length > 20)

    const fullAt = performance.now()
    disk.fill()
    const writes = new pg.Client(url)
    writes.on('error', () => {})
    await writes.connect()
    const fill = 'insert into filler select repeat(md5(n::text), 200) from generate_series(1, 20000) as n'
    await expect(writes.query(fill)).rejects.toMatchObject({
      message: expect.stringContaining('No space left on device'),
    })
    // Enqueues fail as soon as they need another page. Then the existing WAL files are filled up.
    await until('an enqueue has failed', () =>
      errors.some((error) => error instanceof DatabaseError && error.sqlstate === '53100'),
    )
    const message = "select pg_logical_emit_message(false, 'test', repeat('x', 1000000)) from generate_series(1, 2000)"
    await expect(writes.query(message)).rejects.toThrow()
    // The server cannot write its log either.
    await until('the server has crashed and does not start', () => sql(url, 'select').then(() => false, isRefused))
    await until('the disk was full for ten seconds', () => performance.now() - fullAt > fullMs, 2 * fullMs)
    const before = { acknowledged: acknowledged.length, fence: fences.at(-1)! }
    disk.free()
    await server.restart('immediate')

    await until('jobs are enqueued again', () => acknowledged.length > before.acknowledged + 20, 30_000)
    await until('names are granted again', () => fences.at(-1)! > before.fence, 30_000)
    isOver.abort()
    await Promise.all(loops)
    await until('no job is left', async () => {
      const left = 'select id from holdfast.job_live union all select id from holdfast.waiting limit 1'
      return (await sql(url, left)).length === 0
    })
    const effects = (await sql<{ n: number }>(url, 'select n from effect')).map(({ n }) => n)
    expect(new Set(effects).size, 'effects that happened twice').toBe(effects.length)
    expect(acknowledged.filter((n) => !effects.includes(n))).toEqual([])

    const kinds = new Map<string, number>()
    for (const error of errors) {
      expect(error).toBeInstanceOf(HoldfastError)
      const { code, message } = error as HoldfastError
      const kind = error instanceof DatabaseError ? `${code} ${error.sqlstate}` : code
      expect([kind, message, (error as HoldfastError).retryable || /_(LOST|TIMEOUT)$/.test(code)]).toEqual([
        kind,
        message,
        true,
      ])
      kinds.set(kind, (kinds.get(kind) ?? 0) + 1)
    }
    console.log('errors while the disk was full:', Object.fromEntries(kinds))
    expect([...kinds.keys()]).toEqual(expect.arrayContaining(['DATABASE_ERROR 53100', 'DATABASE_UNREACHABLE']))
  },
)
