// Compares `once` with handwritten statements: a unique row and the effect in one transaction, and a select for the replay.
import { Holdfast } from 'holdfast'
import pg from 'pg'
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

export async function run(url: string, { rounds, roundMs, progress }: Options) {
  await query(url, 'create table processed (key text primary key, answer json, at timestamptz not null default now())')
  await query(url, 'create table effect (key text not null)')
  // Both have the same number of connections.
  const pool = new pg.Pool({ connectionString: url, max: 20 })
  const theirs = new pg.Pool({ connectionString: url, max: 20 })
  const holdfast = await Holdfast.open({ pool, namespace: 'bench' })
  let count = 0
  const fresh = () => `key:${++count}`
  await holdfast.once.run('replayed', () => ({ done: true }))
  await recordOnly(theirs, 'replayed')

  const contestants = callers.flatMap((many) => {
    const named = (who: string, what: string) => `${who}, ${what}, ${many} ${many === 1 ? 'caller' : 'callers'}`
    const contestant = (name: string, work: () => Promise<unknown>) => ({
      name,
      run: (ms: number) => loops(many, ms, work),
    })
    return [
      contestant(named('holdfast', 'effect and record'), () =>
        holdfast.once.run(fresh(), async ({ tx }) => {
          await tx.query('insert into effect (key) values ($1)', [String(count)])
          return { done: true }
        }),
      ),
      contestant(named('recipe', 'effect and record'), () => recipe(theirs, fresh())),
      contestant(named('holdfast', 'record'), () => holdfast.once.run(fresh(), () => ({ done: true }))),
      contestant(named('recipe', 'record'), () => recordOnly(theirs, fresh())),
      contestant(named('holdfast', 'replay'), () => holdfast.once.run('replayed', () => ({ done: false }))),
      contestant(named('recipe', 'replay'), () =>
        theirs.query('select answer from processed where key = $1', ['replayed']),
      ),
    ]
  })
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
    }
  } finally {
    await holdfast.close()
    await Promise.all([pool.end(), theirs.end()])
  }
}

export function show({ contestants, ratios }: Awaited<ReturnType<typeof run>>) {
  const rates = Object.entries(contestants).map(([name, { perSecond, p50Ms, p99Ms }]) => [
    name,
    perSecond,
    p50Ms,
    p99Ms,
  ])
  return [
    table(['Once, with 20 connections', 'calls/s', 'p50 ms', 'p99 ms'], rates),
    table(
      ['holdfast : recipe', 'ratio'],
      ratios.map(({ ours, ratio }) => [ours.replace('holdfast, ', ''), ratio]),
    ),
  ].join('\n\n')
}
