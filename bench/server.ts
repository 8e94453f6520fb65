// Provides the server to measure on: HOLDFAST_BENCH_URL, or an embedded PostgreSQL with its default settings (fsync on).
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { cpus } from 'node:os'
import { startEmbedded } from 'holdfast/embedded'
import pg from 'pg'

const require = createRequire(import.meta.url)

export interface ServerOptions {
  settings?: Record<string, string>
  /** Programs of another PostgreSQL installation. They take precedence over HOLDFAST_BENCH_URL. */
  binDir?: string | undefined
  /** URL of a server that is already running. */
  on?: string | undefined
}

/** Creates an empty database. `close` removes it. */
export async function benchDatabase({ settings, binDir, on }: ServerOptions = {}) {
  const given = on ?? (binDir ? undefined : process.env.HOLDFAST_BENCH_URL)
  const server = given ? undefined : await startEmbedded({ settings, binDir })
  const adminUrl = given ?? server!.url
  const name = `holdfast_bench_${randomBytes(4).toString('hex')}`
  await query(adminUrl, `create database ${name}`)
  const url = new URL(adminUrl)
  url.pathname = `/${name}`
  return {
    url: url.href,
    /** Process id of the server, or undefined if HOLDFAST_BENCH_URL selects the server. */
    pid: server && Number.parseInt(readFileSync(`${server.dataDir}/postmaster.pid`, 'utf8'), 10),
    async close() {
      if (given) await query(adminUrl, `drop database ${name} with (force)`)
      else await server?.stop('immediate')
    },
  }
}

export async function query(url: string, text: string, values?: unknown[]) {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query(text, values)).rows
  } finally {
    await client.end()
  }
}

const printedSettings = [
  'fsync',
  'synchronous_commit',
  'shared_buffers',
  'max_connections',
  'max_locks_per_transaction',
  'jit',
]

/** Returns the machine, versions and settings, which the bench prints with the figures. */
export async function circumstances(url: string, binDir?: string) {
  const rows = await query(url, 'select name, current_setting(name) as value from unnest($1::text[]) as name', [
    ['server_version', ...printedSettings],
  ])
  const all: Record<string, string> = Object.fromEntries(rows.map(({ name, value }) => [name, value]))
  const { server_version: postgresql, ...settings } = all
  return {
    at: new Date().toISOString(),
    cpus: `${cpus().length} × ${cpus()[0]?.model.trim() || 'unknown'}`,
    node: process.version,
    postgresql,
    server: binDir ?? (process.env.HOLDFAST_BENCH_URL ? 'HOLDFAST_BENCH_URL' : 'embedded, on the same machine'),
    settings,
    drivers: { pg: require('pg/package.json').version as string },
  }
}

/** Formats the circumstances as two lines for the head of a report. */
export function describeCircumstances(found: Awaited<ReturnType<typeof circumstances>>) {
  const { at, cpus, node, postgresql, server, settings, drivers } = found
  const pairs = (object: Record<string, string>) => Object.entries(object).map(([name, value]) => `${name} ${value}`)
  return [
    `${at}: ${cpus}, Node ${node}, PostgreSQL ${postgresql} (${server}), ${pairs(drivers).join(', ')}`,
    `Server: ${pairs(settings).join(', ')}`,
  ].join('\n')
}
