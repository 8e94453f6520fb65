// Tests claims in SQL by several sessions at the same time: each committed entry of a job is claimed exactly once, no matter
// how the transactions create the entries. A run prints its seed. The seed repeats the decisions of each session, but not their
// timing.
import type pg from 'pg'
import { describe, expect, test } from 'vitest'
import { type Random, randomFrom } from '../property/random.ts'
import { countOf, seedOf } from '../property/seed.js'
import { sql, sqlSession, until } from '../setup/facts.js'
import { databaseUrl } from '../setup/instances.js'
import { ownDatabase, ownServer } from '../setup/own-server.js'
import { runsAll } from '../setup/variants.js'

const queues = ['1', '2', '-3']
const kinds = ['mail', 'report', 'image', 'sync']
const priorities = [-5, -1, 0, 0, 0, 0, 2, 5]

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

interface Fixture {
  readonly url: string
  readonly canPrepare: boolean
  /** Returns a separate stream of random numbers for a session. */
  random(): Random
  /** Ids of the jobs whose transactions have committed. */
  readonly committed: Set<number>
  /** Ids that claims have returned. A job that was returned to its queue is in this list several times. */
  readonly claimed: number[]
  /** Prepared transactions and the ids of their jobs. */
  readonly prepared: Map<string, number[]>
  /** Transactions that stay open for a long time. */
  readonly open: { client: pg.Client; ids: number[] }[]
  isWriting: boolean
  keys: number
}

async function enqueue(client: pg.Client, random: Random, fixture: Fixture): Promise<number[]> {
  const isKeyed = random.chance(0.15)
  const heads: object[] = []
  const count = isKeyed || random.chance(0.5) ? 1 : 1 + random.below(20)
  for (let input = 0; input < count; ) {
    const last = isKeyed ? input + 1 : input + 1 + random.below(count - input)
    heads.push({
      queue: random.pick(queues),
      kind: random.pick(kinds),
      priority: random.pick(priorities),
      max_crashes: 3,
      after_input: input,
      last_input: last,
      ...(isKeyed && {
        unique: { key: `key ${++fixture.keys}`, until: random.pick(['started', 'ended']), existing: 'keep' },
      }),
    })
    input = last
  }
  const { rows } = await client.query('select ids from holdfast.job_enqueue($1, $2, false, null)', [
    JSON.stringify(heads),
    JSON.stringify(Array.from({ length: count }, (_, n) => n)),
  ])
  return rows[0].ids.map(Number)
}

/** Enqueues jobs in a transaction with savepoints. Returns the jobs that exist if the transaction commits. */
async function fill(client: pg.Client, random: Random, fixture: Fixture): Promise<number[]> {
  let ids: number[] = []
  const savepoints: number[][] = []
  for (let step = random.below(8); step >= 0; step--) {
    const action = random.fraction()
    if (action < 0.55) ids = [...ids, ...(await enqueue(client, random, fixture))]
    else if (action < 0.75) {
      await client.query(`savepoint s${savepoints.length}`)
      savepoints.push(ids)
    } else if (savepoints.length > 0) {
      const before = savepoints.pop()!
      const isUndone = random.chance(0.5)
      await client.query(`${isUndone ? 'rollback to' : 'release'} s${savepoints.length}`)
      if (isUndone) {
        // The savepoint itself still exists.
        savepoints.push(before)
        ids = before
      }
    } else await pause(random.below(4))
  }
  return ids
}

async function finish(client: pg.Client, ids: number[], random: Random, fixture: Fixture): Promise<void> {
  const action = random.fraction()
  if (action < 0.2) await client.query('rollback')
  else if (action < 0.4 && fixture.canPrepare) {
    const name = `p${random.below(2 ** 30)}`
    await client.query(`prepare transaction '${name}'`)
    fixture.prepared.set(name, ids)
  } else {
    await client.query('commit')
    for (const id of ids) fixture.committed.add(id)
  }
}

async function decide(client: pg.Client, name: string, isCommitted: boolean, fixture: Fixture): Promise<void> {
  const ids = fixture.prepared.get(name)!
  fixture.prepared.delete(name)
  await client.query(`${isCommitted ? 'commit' : 'rollback'} prepared '${name}'`)
  if (isCommitted) for (const id of ids) fixture.committed.add(id)
}

async function write(fixture: Fixture, transactions: number): Promise<void> {
  const random = fixture.random()
  let client = await sqlSession(fixture.url)
  for (let n = 0; n < transactions; n++) {
    if (random.chance(0.2)) {
      for (const id of await enqueue(client, random, fixture)) fixture.committed.add(id)
      continue
    }
    await client.query(`begin isolation level ${random.pick(['read committed', 'repeatable read'])}`)
    // A transaction that writes something else is in progress too.
    if (random.chance(0.2)) await client.query('insert into public.noise values (1)')
    const ids = await fill(client, random, fixture)
    if (random.chance(0.08)) {
      fixture.open.push({ client, ids })
      client = await sqlSession(fixture.url)
      continue
    }
    await finish(client, ids, random, fixture)
    const [name] = fixture.prepared.keys()
    if (name !== undefined && random.chance(0.4)) await decide(client, name, random.chance(0.7), fixture)
    const late = random.chance(0.1) ? fixture.open.shift() : undefined
    if (late) await finish(late.client, late.ids, random, fixture)
  }
}

/** A worker with its own session number that knows some of the kinds. */
class Claimer {
  readonly #fixture: Fixture
  readonly #client: pg.Client
  readonly #random: Random
  readonly #session: number
  readonly #kinds: string[]
  readonly #queues: string[]

  private constructor(fixture: Fixture, client: pg.Client, session: number, knownKinds: string[], served: string[]) {
    this.#fixture = fixture
    this.#client = client
    this.#random = fixture.random()
    this.#session = session
    this.#kinds = knownKinds
    this.#queues = served
  }

  static async start(fixture: Fixture, session: number, knownKinds: string[], served: string[]): Promise<Claimer> {
    const client = await sqlSession(fixture.url)
    await client.query(
      "insert into holdfast.worker (session, number, instance, queues, kinds) values ($1, 1, 'here', $2, $3)",
      [session, served, knownKinds],
    )
    return new Claimer(fixture, client, session, knownKinds, served)
  }

  /** Returns true if the claim found a job. */
  async claim(isThorough = this.#random.chance(0.3)): Promise<boolean> {
    const random = this.#random
    const isOpen = random.chance(0.2)
    if (isOpen) await this.#client.query('begin')
    const { rows } = await this.#client.query(
      'select state, fence, jobs from holdfast.job_claim($1, $2, $3, $4, $5, false, $6)',
      [
        this.#session,
        random.below(2 ** 30),
        this.#queues,
        this.#kinds,
        1 + random.below(random.pick([1, 5, 40])),
        isThorough,
      ],
    )
    const [{ state, fence, jobs }] = rows
    expect(state).toBe('claimed')
    if (isOpen) {
      if (random.chance(0.3)) await pause(random.below(5))
      // The worker loses its connection, so nothing is claimed.
      const isLost = random.chance(0.3)
      await this.#client.query(isLost ? 'rollback' : 'commit')
      if (isLost) return jobs !== null
    }
    if (jobs === null) return false
    const ids = (JSON.parse(`[${jobs}]`) as [number, number][]).map(([id, kind]) => {
      expect(kind).toBeGreaterThan(0)
      return id
    })
    this.#fixture.claimed.push(...ids)
    await this.#end(ids, fence)
    return true
  }

  async #end(ids: number[], fence: string): Promise<void> {
    const random = this.#random
    const isReturned = this.#fixture.isWriting && random.chance(0.15)
    // Some jobs continue to run.
    const ended = random.chance(0.2) ? ids.filter(() => random.chance(0.5)) : ids
    if (ended.length === 0) return
    const emptied = ended.length === ids.length ? [fence] : []
    if (isReturned) {
      const endings = ended.map((id) => ({ id, fence, state: 'returned' }))
      await this.#client.query('select holdfast.job_end($1, $2)', [JSON.stringify(endings), emptied])
    } else {
      await this.#client.query('select holdfast.job_done($1, $2, null, $3)', [ended, ended.map(() => fence), emptied])
    }
  }

  async claimWhileWriting(): Promise<void> {
    while (this.#fixture.isWriting) {
      if (!(await this.claim())) await pause(this.#random.below(10))
    }
  }
}

/** Cancels jobs, pauses and resumes queues, and looks for lost jobs while other sessions write and claim. */
async function disturb(fixture: Fixture): Promise<void> {
  const random = fixture.random()
  const client = await sqlSession(fixture.url)
  while (fixture.isWriting) {
    const action = random.fraction()
    if (action < 0.5 && fixture.committed.size > 0) {
      await client.query('select holdfast.job_cancel($1, $2)', [random.pick([...fixture.committed]), 'not wanted'])
    } else if (action < 0.7) {
      await client.query(
        `insert into holdfast.queue (key, namespace, name, paused_at) values ($1::text::bigint, '', $1::text, $2)
         on conflict (key) do update set paused_at = excluded.paused_at`,
        [random.pick(queues), random.chance(0.3) ? new Date() : null],
      )
    } else expect((await client.query('select * from holdfast.job_lost()')).rows).toEqual([])
    await pause(random.below(20))
  }
  await client.query('update holdfast.queue set paused_at = null')
}

/** Compares the tables with the records of the sessions. No session may write or claim meanwhile. */
async function check(fixture: Fixture): Promise<void> {
  const { url, committed, claimed } = fixture
  const entries = await sql<{ id: string; entries: number; removed: number; ready: number }>(
    url,
    `select
       id, count(*)::integer as entries,
       (count(*) filter (where entry in (select entry from holdfast.job_removed)))::integer as removed,
       (count(*) filter (where entry in (select entry from holdfast.job_ready)))::integer as ready
     from holdfast.job
     group by id`,
  )
  expect(entries.map(({ id }) => Number(id)).sort()).toEqual([...committed].sort())
  const claims = new Map<number, number>()
  for (const id of claimed) claims.set(id, (claims.get(id) ?? 0) + 1)
  const expected = entries.map(({ id, entries, removed, ready }) => ({ id, claims: entries - removed - ready }))
  expect(entries.map(({ id }) => ({ id, claims: claims.get(Number(id)) ?? 0 }))).toEqual(expected)
  // job_ready contains an entry only once.
  const ready = await sql(url, 'select entry from holdfast.job_ready group by entry having count(*) > 1')
  expect(ready).toEqual([])
  expect(await sql(url, 'select * from holdfast.job_lost()')).toEqual([])
  // job_live and job_find agree with job_ready.
  const states = await sql<{ ready: string; live: string; found: string }>(
    url,
    `select
       (select count(*) from holdfast.job_ready) as ready,
       (select count(*) from holdfast.job_live where session is null) as live,
       (select count(*) from holdfast.job_find($1) where state = 'ready') as found`,
    [[...committed]],
  )
  expect(states[0]!.live).toBe(states[0]!.ready)
  expect(states[0]!.found).toBe(states[0]!.ready)
}

async function run(url: string, canPrepare: boolean, seed: number): Promise<void> {
  await sql(url, 'create table public.noise (n integer)')
  await sql(url, 'select holdfast.advance_fence()')
  const random = randomFrom(seed)
  const fixture: Fixture = {
    url,
    canPrepare,
    random: () => randomFrom(random.below(2 ** 31)),
    committed: new Set(),
    claimed: [],
    prepared: new Map(),
    open: [],
    isWriting: true,
    keys: 0,
  }
  const claimers: Claimer[] = []
  const count = 1 + random.below(8)
  for (let n = 0; n < count; n++) {
    // The first worker knows all kinds and queues, so that every job can run.
    const known = n === 0 ? kinds : random.some(kinds, 1 + random.below(kinds.length))
    const served = n === 0 ? queues : random.some(queues, 1 + random.below(queues.length))
    claimers.push(await Claimer.start(fixture, 1000 + n, known, served))
  }
  for (let round = 0; round < 3; round++) {
    fixture.isWriting = true
    const busy = [disturb(fixture), ...claimers.map((claimer) => claimer.claimWhileWriting())]
    const writers = Array.from({ length: 1 + random.below(6) }, () => write(fixture, 12))
    // If a session fails, the other sessions must stop too. They would otherwise continue forever.
    try {
      await Promise.race([Promise.all(writers), Promise.all([...writers, ...busy])])
    } finally {
      fixture.isWriting = false
    }
    await Promise.all(busy)
    await check(fixture)
  }
  const last = await sqlSession(url)
  for (const { client, ids } of fixture.open) {
    await client.query('commit')
    for (const id of ids) fixture.committed.add(id)
  }
  for (const name of [...fixture.prepared.keys()]) await decide(last, name, true, fixture)
  await check(fixture)
  await until('no job is left', async () => {
    const found = await Promise.all(claimers.map((claimer) => claimer.claim(true)))
    return !found.includes(true) && (await sql(url, 'select from holdfast.job_ready limit 1')).length === 0
  })
  expect(fixture.committed.size).toBeGreaterThan(0)
  await check(fixture)
}

describe('claims by 1 to 8 sessions at the same time find each committed entry exactly once', {
  timeout: 120_000,
}, () => {
  const seed = seedOf('windows of claims')
  const { below } = randomFrom(seed)

  test.each(Array.from({ length: countOf(1) }, () => below(2 ** 31)))(
    'claims find each committed entry exactly once, with seed %i',
    async (one) => {
      await run(await databaseUrl(), false, one)
    },
  )

  test.skipIf(!runsAll).each(Array.from({ length: countOf(1) }, () => below(2 ** 31)))(
    'claims find each committed entry of prepared transactions exactly once, with seed %i',
    async (one) => {
      const server = await ownServer({ fsync: 'off', max_prepared_transactions: '100' })
      await run(await ownDatabase(server), true, one)
    },
  )
})
