// Compares `once` with handwritten statements: a unique row and the effect in one transaction, and a select for the replay.
import { Holdfast } from 'holdfast'
import pg from 'pg'
import { type Cost, costDatabase, costPerCall } from './cost.ts'
import { loops, type Options, ratio, runRounds, summary } from './measure.ts'
import { query } from './server.ts'
import { table } from './table.ts'

const callers = [1, 64]

/** Writes the effect and the record in one transaction, on one of the pool's connections. */
async function recipe(pool: pg.Pool, key: string) {
  const client = await pool.connect()
  try {
    await client.query('begin')
    const { rows } = await client.query(
      'insert into processed (key) values ($1) on conflict do nothing returning key',
      [key],
    )
    if (rows.length === 0) throw new Error(`${key} was processed before`)
    await client.query('insert into effect (key) values ($1)', [key])
    await client.query('update processed set answer = $2 where key = $1', [key, '{"done":true}'])
    await client.query('commit')
  } finally {
    client.release()
  }
}

/** Writes only the record, for an effect outside the database. */
async function recordOnly(pool: pg.Pool, key: string) {
  await pool.query('insert into processed (key) values ($1)', [key])
  await pool.query('update processed set answer = $2 where key = $1', [key, '{"done":true}'])
}

/** Opens both contestants with the same number of connections. Returns one call of each, by name. */
async function openBoth(url: string) {
  await query(url, 'create table processed (key text primary key, answer json, at timestamptz not null default now())')
  await query(url, 'create table effect (key text not null)')
  const pool = new pg.Pool({ connectionString: url, max: 20 })
  const theirs = new pg.Pool({ connectionString: url, max: 20 })
  const holdfast = await Holdfast.open({ pool, namespace: 'bench' })
  let count = 0
  const fresh = () => `key:${++count}`
  await holdfast.once.run('replayed', () => ({ done: true }))
  await recordOnly(theirs, 'replayed')
  const calls: Record<string, () => Promise<unknown>> = {
    'holdfast, effect and record': () =>
      holdfast.once.run(fresh(), async ({ tx }) => {
        await tx.query('insert into effect (key) values ($1)', [String(count)])
        return { done: true }
      }),
    'recipe, effect and record': () => recipe(theirs, fresh()),
    'holdfast, record': () => holdfast.once.run(fresh(), () => ({ done: true })),
    'recipe, record': () => recordOnly(theirs, fresh()),
    'holdfast, replay': () => holdfast.once.run('replayed', () => ({ done: false })),
    'recipe, replay': () => theirs.query('select answer from processed where key = $1', ['replayed']),
  }
  const close = async () => {
    await holdfast.close()
    await Promise.all([pool.end(), theirs.end()])
  }
  return { calls, close }
}

/** Measures the round trips and the server time of one caller's calls. */
async function costs(): Promise<Record<string, Cost> | undefined> {
  const database = await costDatabase()
  if (!database) return undefined
  const { calls, close } = await openBoth(database.url)
  try {
    const found: Record<string, Cost> = {}
    for (const [name, call] of Object.entries(calls)) found[name] = await costPerCall(database.url, call)
    return found
  } finally {
    await close()
    await database.close()
  }
}

export async function run(url: string, { rounds, roundMs, progress }: Options) {
  const { calls, close } = await openBoth(url)
  const contestants = callers.flatMap((many) =>
    Object.entries(calls).map(([name, call]) => ({
      name: `${name}, ${many} ${many === 1 ? 'caller' : 'callers'}`,
      run: (ms: number) => loops(many, ms, call),
    })),
  )
  try {
    const outcomes = await runRounds(contestants, {
      rounds,
      roundMs,
      onRound: (round) => progress(`once: round ${round + 1} of ${rounds}`),
    })
    return {
      contestants: Object.fromEntries(Object.entries(outcomes).map(([name, all]) => [name, summary(all)])),
      ratios: Object.keys(outcomes)
        .filter((name) => name.startsWith('holdfast'))
        .map((ours) => ({ ours, ratio: ratio(outcomes[ours], outcomes[ours.replace('holdfast', 'recipe')]) })),
      costs: await costs(),
    }
  } finally {
    await close()
  }
}

export function show({ contestants, ratios, costs }: Awaited<ReturnType<typeof run>>) {
  const rates = Object.entries(contestants).map(([name, { perSecond, p50Ms, p99Ms }]) => [
    name,
    perSecond,
    p50Ms,
    p99Ms,
  ])
  const costRows = Object.entries(costs ?? {}).map(([name, { roundTrips, serverMs }]) => [name, roundTrips, serverMs])
  return [
    table(['Once, with 20 connections', 'calls/s', 'p50 ms', 'p99 ms'], rates),
    table(
      ['holdfast : recipe', 'ratio'],
      ratios.map(({ ours, ratio }) => [ours.replace('holdfast, ', ''), ratio]),
    ),
    ...(costRows.length > 0 ? [table(['One caller, per call', 'round trips', 'server ms'], costRows)] : []),
  ].join('\n\n')
}
