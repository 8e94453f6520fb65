import { expect } from 'vitest'
import { defineJob, Holdfast } from '../../src/index.js'
import { sql, sqlSession, until, within } from '../setup/facts.js'
import { patiently } from '../setup/patiently.ts'

/** More than a crash could forget. */
const many = 2_000_000

const mail = defineJob('mail', { run: async ({ n }: { n: number }) => ({ sent: n }) })

/**
 * Systems outside the database, which no restore sets back. They do what the guides recommend: refuse a fence that is not
 * larger than all before, and drop a request whose idempotency key `mail:${job.id}` was used before.
 */
export class Outside {
  #largest = 0
  readonly #keys = new Set<string>()
  #largestId = 0
  #count = 0

  /** A storage service that keeps the largest fence. */
  accepts(fence: number, what: string): void {
    expect(fence, `the fence of ${what}`).toBeGreaterThan(this.#largest)
    expect(fence).toBeLessThan(Number.MAX_SAFE_INTEGER)
    this.#largest = fence
  }

  /** A mail service that remembers every idempotency key. */
  receives(id: string | number): void {
    expect(this.#keys, `the idempotency key mail:${id} was used before`).not.toContain(`mail:${id}`)
    expect(Number(id), 'an id among the many that were given').toBeGreaterThan(this.#largestId)
    this.#keys.add(`mail:${id}`)
    expect(Number(id)).toBeLessThan(Number.MAX_SAFE_INTEGER)
  }

  /**
   * Uses an instance for everything that gives out numbers: locks, leases, permits and jobs, with writes that are guarded.
   * Without sessions, as with `anchor: 'none'`, the lock is one of a transaction.
   */
  async use(instance: Holdfast, url: string, { sessions = true } = {}): Promise<void> {
    const client = await sqlSession(url)
    const n = ++this.#count
    await client.query('begin')
    if (sessions) {
      const lock = await within(15_000, 'The lock', instance.locks.acquire('ledger'))
      this.accepts(lock.fence, 'a lock')
      await lock.guard(client)
      await client.query('commit')
      await lock.release()
    } else {
      const lock = await instance.locks.inTransaction(client, 'ledger', { wait: '15s' })
      this.accepts(lock.fence, 'a lock of a transaction')
      await client.query("select holdfast.guard('default', 'ledger', $1)", [lock.fence])
      await client.query('commit')
    }
    const lease = await instance.leases.acquire('rented', { ttl: '5s', wait: '15s' })
    this.accepts(lease.fence, 'a lease')
    await client.query('begin')
    await lease.guard(client)
    await client.query('commit')
    await lease.release()
    await instance.limits.with('limited', { max: 1, wait: '15s' }, ({ fence }) => this.accepts(fence, 'a permit'))
    const { id } = await instance.jobs.enqueue(mail, { n })
    this.receives(id)
    expect(await instance.jobs.find(id)).toMatchObject({ state: 'ready', input: { n }, result: undefined })
    const worker = instance.jobs.work([mail])
    expect(await instance.jobs.result(id, { wait: '15s' })).toEqual({ sent: n })
    await worker.close()
    const [fromSql] = (await client.query("select holdfast.enqueue('sql', 'mail', '{}') as id")).rows
    this.receives(fromSql.id)
    await client.end()
  }

  /** The same by an instance that opens and closes for it. */
  async visit(url: string): Promise<void> {
    const instance = await patiently(() => Holdfast.open({ url, expiry: '2s' }))
    try {
      await this.use(instance, url)
    } finally {
      await instance.close()
    }
  }

  /** Receives more fences and ids than a crash could forget, as over the days between a backup and its restore. */
  async receivesMany(url: string): Promise<void> {
    const floor = async () => {
      const [now] = await sql<{ floor: string }>(url, 'select holdfast.clock_floor() as floor')
      return Number(now!.floor)
    }
    const before = await floor()
    const [last] = await sql<{ fence: string; id: string }>(
      url,
      `select max(nextval('holdfast.fence')) as fence, max(nextval('holdfast.job_number')) as id
       from generate_series(1, ${many})`,
    )
    this.accepts(Number(last!.fence), 'the last of many grants')
    this.#largestId = Number(last!.id)
    // This draws them faster than any fleet can. The floor follows the clock, and needs a few seconds to catch up: two for
    // the numbers, and one for the distance by which a sequence may be ahead after a quick restart.
    await until('the clock has passed the numbers drawn', async () => (await floor()) > before + many + 2 ** 20)
  }
}
