// Calls of limits, and the handwritten statements that they are compared with.
import { Holdfast, type LimitOptions, type Limits } from 'holdfast'
import pg from 'pg'

const entities = 10_000
const anyEntity = () => Math.floor(Math.random() * entities)

/** A handwritten semaphore: a counter. No process returns dead processes' permits. */
const take = `
insert into by_hand_limit (name, in_use) values ($1, 1)
on conflict (name) do update set in_use = by_hand_limit.in_use + 1 where by_hand_limit.in_use < $2
returning in_use`
const give = 'update by_hand_limit set in_use = in_use - 1 where name = $1'

/** A handwritten rate limit: a counter per second. Around the start of a second, it allows up to twice the rate. */
const spend = `
insert into by_hand_rate (name, begins, spent) values ($1, date_trunc('second', clock_timestamp()), 1)
on conflict (name, begins) do update set spent = by_hand_rate.spent + 1
returning spent <= $2 as allowed`

export interface Callers {
  once(caller: number): Promise<unknown>
  close(): Promise<void>
}

type Call = (limits: Limits, caller: number) => Promise<unknown>
type CallByHand = (pool: pg.Pool, caller: number) => Promise<unknown>

const pair =
  (nameOf: (caller: number) => string, options: LimitOptions): Call =>
  async (limits, caller) =>
    (await limits.acquire(nameOf(caller), options)).release()

const pairByHand =
  (nameOf: (caller: number) => string, max: number): CallByHand =>
  async (pool, caller) => {
    const name = nameOf(caller)
    await pool.query(take, [name, max])
    await pool.query(give, [name])
  }

const ownName = (caller: number) => `own:${process.pid}:${caller}`

const calls = {
  'permit own': pair(ownName, { max: 1 }),
  'permit spread': pair(() => `any:${anyEntity()}`, { max: 1_000 }),
  'permit hot 1': pair(() => 'hot', { max: 1, wait: '1m' }),
  'permit hot 10': pair(() => 'warm', { max: 10, wait: '1m' }),
  'permit hot free': pair(() => 'wide', { max: 1_000 }),
  'rate hot': (limits) => limits.consume('hot', { rate: '1000000/s' }),
  'rate spread': (limits) => limits.consume(`any:${anyEntity()}`, { rate: '1000/s' }),
  'rate refused': (limits) => limits.consume('refused', { rate: '1/d' }),
} satisfies Record<string, Call>

const callsByHand = {
  'by hand own': pairByHand(ownName, 1),
  'by hand spread': pairByHand(() => `any:${anyEntity()}`, 1_000),
  'by hand hot free': pairByHand(() => 'wide', 1_000),
  'rate by hand hot': (pool) => pool.query(spend, ['hot', 1_000_000]),
  'rate by hand spread': (pool) => pool.query(spend, [`any:${anyEntity()}`, 1_000]),
} satisfies Record<string, CallByHand>

const isOurs = (kind: string): kind is keyof typeof calls => Object.hasOwn(calls, kind)
const isByHand = (kind: string): kind is keyof typeof callsByHand => Object.hasOwn(callsByHand, kind)

/** Opens callers of one kind: an instance of Holdfast, or a pool for handwritten statements. */
export async function openCallers(kind: string, url: string): Promise<Callers> {
  if (isOurs(kind)) {
    const holdfast = await Holdfast.open({ url, namespace: 'bench' })
    const call: Call = calls[kind]
    return { once: (caller) => call(holdfast.limits, caller), close: () => holdfast.close() }
  }
  if (!isByHand(kind)) throw new Error(`There are no callers "${kind}"`)
  const pool = new pg.Pool({ connectionString: url, max: 20 })
  const call: CallByHand = callsByHand[kind]
  return { once: (caller) => call(pool, caller), close: () => pool.end() }
}

/** Creates the tables of the handwritten statements. */
export const tablesByHand = `
create table if not exists by_hand_limit (name text primary key, in_use integer not null);
create table if not exists by_hand_rate (
  name text not null, begins timestamptz not null, spent integer not null, primary key (name, begins))`
