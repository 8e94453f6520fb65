// Runs a process with callers of limits. The parent's messages contain the duration of each run.
import { Holdfast, type LimitOptions, type Limits } from 'holdfast'
import pg from 'pg'
import { loops } from '../measure.ts'

const [kind, url, each] = process.argv.slice(2) as [Kind, string, string]
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

type Callers = { once(caller: number): Promise<unknown>; close(): Promise<void> }

async function withHoldfast(once: (limits: Limits, caller: number) => Promise<unknown>): Promise<Callers> {
  const holdfast = await Holdfast.open({ url, namespace: 'bench' })
  return { once: (caller) => once(holdfast.limits, caller), close: () => holdfast.close() }
}

/** Runs handwritten statements on a pool of its own. */
function byHand(once: (pool: pg.Pool, caller: number) => Promise<unknown>, connections = 20): Callers {
  const pool = new pg.Pool({ connectionString: url, max: connections })
  return { once: (caller) => once(pool, caller), close: () => pool.end() }
}

const pair = (nameOf: (caller: number) => string, options: LimitOptions) =>
  withHoldfast(async (limits, caller) => (await limits.acquire(nameOf(caller), options)).release())

const pairByHand = (nameOf: (caller: number) => string, max: number) =>
  byHand(async (pool, caller) => {
    const name = nameOf(caller)
    await pool.query(take, [name, max])
    await pool.query(give, [name])
  })

type Kind = keyof typeof kinds

const kinds = {
  'permit own': () => pair((caller) => `own:${process.pid}:${caller}`, { max: 1 }),
  'permit spread': () => pair(() => `any:${anyEntity()}`, { max: 1_000 }),
  'permit hot 1': () => pair(() => 'hot', { max: 1, wait: '1m' }),
  'permit hot 10': () => pair(() => 'warm', { max: 10, wait: '1m' }),
  'permit hot free': () => pair(() => 'wide', { max: 1_000 }),
  'by hand own': () => pairByHand((caller) => `own:${process.pid}:${caller}`, 1),
  'by hand spread': () => pairByHand(() => `any:${anyEntity()}`, 1_000),
  'by hand hot free': () => pairByHand(() => 'wide', 1_000),
  'rate hot': () => withHoldfast((limits) => limits.consume('hot', { rate: '1000000/s' })),
  'rate spread': () => withHoldfast((limits) => limits.consume(`any:${anyEntity()}`, { rate: '1000/s' })),
  'rate refused': () => withHoldfast((limits) => limits.consume('refused', { rate: '1/d' })),
  'rate by hand hot': () => byHand((pool) => pool.query(spend, ['hot', 1_000_000])),
  'rate by hand spread': () => byHand((pool) => pool.query(spend, [`any:${anyEntity()}`, 1_000])),
}

const callers = await kinds[kind]()
process.on('message', async ({ ms }: { ms: number }) => process.send?.(await loops(Number(each), ms, callers.once)))
process.on('disconnect', () => callers.close())
process.send?.({})
