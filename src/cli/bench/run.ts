import type { PoolClient } from 'pg'
import { hashedKey } from '../../base/index.js'
import { Holdfast } from '../../index.js'
import { addressOf, urlsOf } from '../../postgres/index.js'
import { forwardedSignals, statusOfSignal } from '../child.js'
import { requireConfirmation } from '../confirm.js'
import { connect } from '../connect.js'
import type { Measured } from '../documents.js'
import { conditionNotMet, Exit, printMessage } from '../failure.js'
import { type Column, printRows } from '../output.js'
import { Progress } from '../progress.js'
import type { Settings } from '../settings.js'
import { onSignals } from '../signals.js'
import { type BenchContext, makeMeasures } from './measures.js'

const schema = 'holdfast_bench'
const connections = 10

/** Benchmarks the database from this machine. Drops the benchmark's schema afterwards. */
export async function bench(settings: Settings): Promise<void> {
  const ms = (settings.number('seconds', 0.1, 600) ?? 1) * 1_000
  const { pool, database, url } = connect(settings, connections)
  try {
    const address = addressOf(database.connection ?? {})
    if (!isLocal(url)) {
      printMessage(warning(address, ms))
      await requireConfirmation(settings, 'keeping a server busy', 'Run the benchmark?')
    }
    // Connects through `Database`, which translates connection errors.
    await database.query('select 1')
    const client = await pool.connect()
    try {
      await acquireBenchLock(client)
      await client.query(`drop schema if exists ${schema} cascade`)
      try {
        const measured = await measure(settings, address, ms, pool)
        printRows<'bench'>(settings, measured, columns)
      } finally {
        await client.query(`set client_min_messages = warning; drop schema if exists ${schema} cascade`)
      }
    } finally {
      client.release(true)
    }
  } finally {
    await database.close()
  }
}

/** Returns true if every configured host is this machine: a loopback address or the directory of a Unix socket. */
function isLocal(url: string | undefined): boolean {
  const hosts = url === undefined ? (process.env.PGHOST ?? '').split(',') : urlsOf(url).map(hostOf)
  return hosts.every((host) => /^($|\/|(localhost|127\.0\.0\.1|\[::1\]|::1)$)/.test(host))
}

function hostOf(url: string): string {
  const { searchParams, hostname } = new URL(url)
  return searchParams.get('host') ?? hostname
}

function warning(address: string, ms: number): string {
  const seconds = Math.round((makeMeasures().length * ms) / 1_000)
  return [
    `The benchmark will measure ${address}, which is not on this machine.`,
    `For about ${seconds} seconds, the benchmark keeps up to ${connections + 3} connections busy and writes about 100 MB to the schema ${schema}.`,
    'The benchmark drops this schema before it exits. Other users of the server may notice the load.',
  ].join('\n')
}

/** Allows one benchmark at a time. Two benchmarks would distort each other's results and drop each other's tables. */
async function acquireBenchLock(client: PoolClient): Promise<void> {
  const { key } = hashedKey(schema, 'bench')
  const { rows } = await client.query<{ ours: boolean }>('select pg_try_advisory_lock($1::bigint) as ours', [key])
  if (!rows[0]!.ours) conditionNotMet('Another benchmark is already running on this database.')
}

async function measure(
  settings: Settings,
  address: string,
  ms: number,
  pool: ReturnType<typeof connect>['pool'],
): Promise<Measured[]> {
  const stop = new AbortController()
  onSignals(forwardedSignals, (signal) => stop.abort(new Exit(statusOfSignal(signal))))
  const directUrl = settings.text('directUrl')
  await using holdfast = await Holdfast.open({ pool, schema, directUrl, namespace: 'bench', log: false })
  const { database } = connect(settings, connections)
  const context: BenchContext = { database, holdfast, ms, signal: stop.signal }
  const measured: Measured[] = []
  try {
    using progress = new Progress(settings)
    const all = makeMeasures()
    for (const [at, { run, ...what }] of all.entries()) {
      progress.show(`${at + 1} of ${all.length}: ${what.name}, ${what.atOnce} concurrent, on ${address}`)
      const sample = await run(context)
      const roundTripMs = measured[0]?.p50Ms ?? sample.p50Ms
      const isAlone = what.atOnce === 1 && sample.p50Ms !== null && roundTripMs !== null
      const roundTrips = isAlone ? Math.round((sample.p50Ms / roundTripMs) * 10) / 10 : null
      measured.push({ ...what, ...sample, roundTrips })
    }
    return measured
  } finally {
    await database.close()
  }
}

const shownMs = (ms: number | null) => (ms === null ? '' : `${ms < 10 ? ms.toFixed(2) : ms.toFixed(0)} ms`)

const columns: Column<Measured>[] = [
  { title: 'OPERATION', value: ({ name }) => name },
  { title: 'CONCURRENT', value: ({ atOnce }) => atOnce },
  {
    title: 'PER SECOND',
    value: ({ perSecond }) => perSecond,
    shown: ({ perSecond, unit }) => `${perSecond.toLocaleString('en')} ${unit}`,
    colour: () => 'green',
  },
  { title: 'P50', value: ({ p50Ms }) => p50Ms, shown: ({ p50Ms }) => shownMs(p50Ms) },
  { title: 'P99', value: ({ p99Ms }) => p99Ms, shown: ({ p99Ms }) => shownMs(p99Ms) },
  {
    title: 'ROUND TRIPS',
    value: ({ roundTrips }) => roundTrips,
    shown: ({ roundTrips }) => (roundTrips === null ? '' : `${roundTrips}×`),
  },
]
