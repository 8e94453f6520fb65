import { expect } from 'vitest'
import { defineJob, Holdfast } from '../../src/index.js'
import { sql, sqlSession, until, within } from '../setup/facts.js'
import { patiently } from '../setup/patiently.ts'

/** More numbers than a crash could lose. */
const many = 2_000_000

const mail = defineJob('mail', { run: async ({ n }: { n: number }) => ({ sent: n }) })

/**
 * Systems outside the database, which a restore does not reset. As the guides recommend, they reject a fence that is not larger than all earlier
 * fences, and a request whose idempotency key `mail:${job.id}` was used before.
 */
export class Outside {
  #largest = 0
  readonly #keys = new Set<string>()
  #largestId = 0
  #count = 0

  /** Receives a fence, as a storage service that remembers the largest fence. */
  accepts(fence: number, what: string): void {
    expect(fence, `the fence of ${what}`).toBeGreaterThan(this.#largest)
    expect(fence).toBeLessThan(Number.MAX_SAFE_INTEGER)
    this.#largest = fence
  }

  /** Receives a job id, as a mail service that remembers every idempotency key. */
  receives(id: string | number): void {
    expect(this.#keys, `the idempotency key mail:${id} was used before`).not.toContain(`mail:${id}`)
    expect(Number(id), 'the id was used before, by one of many jobs').toBeGreaterThan(this.#largestId)
    this.#keys.add(`mail:${id}`)
    expect(Number(id)).toBeLessThan(Number.MAX_SAFE_INTEGER)
  }

  /**
   * Uses all features that assign numbers: locks, leases, permits and jobs, with guarded writes. Without sessions, as with `anchor: 'none'`, the
   * lock is a transaction lock.
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
      this.accepts(lock.fence, 'a transaction lock')
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

  /** Opens an instance, uses it, and closes it. */
  async visit(url: string): Promise<void> {
    const instance = await patiently(() => Holdfast.open({ url, expiry: '2s', log: false }))
    try {
      await this.use(instance, url)
    } finally {
      await instance.close()
    }
  }

  /** Receives more fences and ids than a crash could lose, as in the days between a backup and its restore. */
  async receivesMany(url: string): Promise<void> {
    const floor = async () => {
      const [now] = await sql<{ floor: string }>(url, 'select holdfast.clock_floor() as floor')
      return Number(now!.floor)
    }
    const before = await floor()
    const [last] = await sql<{ fence: string; id: string }>(
      url,
      `select setval('holdfast.fence', nextval('holdfast.fence') + ${many}) as fence,
              setval('holdfast.job_number', nextval('holdfast.job_number') + ${many}) as id`,
    )
    this.accepts(Number(last!.fence), 'the last of many grants')
    this.#largestId = Number(last!.id)
    // The statement above skips numbers faster than any fleet draws them. The floor follows the clock and catches up in about three seconds: two
    // seconds for the numbers, and one for the distance by which a sequence may be ahead after a quick restart.
    await until('the clock has passed the numbers drawn', async () => (await floor()) > before + many + 2 ** 20)
  }
}
