// One server for the whole test run:
//   HOLDFAST_TEST_URL=postgres://…                       an existing server, as a superuser
//   HOLDFAST_TEST_PG_BIN=/usr/lib/postgresql/15/bin      the server of another version, started here
//   neither                                              the embedded PostgreSQL
// Also prepares a server that tests can copy quickly (own-server.ts).
import { chmodSync, mkdtempSync, readFileSync, statfsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { startEmbedded } from '../../src/embedded/index.js'
import { migrate, openPgPool } from '../../src/postgres/index.js'
import { copyServer, type PreparedServer } from './own-server.js'

declare module 'vitest' {
  interface ProvidedContext {
    /** URL of the server's maintenance database, as a superuser. */
    adminUrl: string
    /** The `create database` clause that clones the template. */
    cloneClause: string
    preparedServer: PreparedServer
  }
}

const templateName = 'holdfast_template'

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const directory = mkdtempSync(join(hasMemory() ? memory : tmpdir(), 'holdfast-run-'))
  // Servers and programs of the tests may run as other users.
  chmodSync(directory, 0o1777)
  process.env.TMPDIR = directory
  const given = process.env.HOLDFAST_TEST_URL
  const cleanUp: (() => Promise<unknown>)[] = [() => rm(directory, { recursive: true, force: true })]
  const end = async () => {
    for (const step of cleanUp.splice(0).reverse()) await step()
  }
  try {
    const prepared = await prepareServer(join(directory, 'prepared'))
    if (given) await makeTemplate(given)
    const server = given ? undefined : await copyServer(prepared, join(directory, 'server'), settings)
    if (server) cleanUp.push(() => server.stop('immediate'))
    const adminUrl = given ?? server!.url
    await query(adminUrl, 'create extension if not exists pg_stat_statements')
    project.provide('adminUrl', adminUrl)
    project.provide('cloneClause', await cloneClauseFor(adminUrl))
    project.provide('preparedServer', prepared)
  } catch (error) {
    await end()
    throw error
  }
  return end
}

const memory = '/dev/shm'
const minFreeBytes = 6_000_000_000

/**
 * Whether temporary files of the run fit into a file system in memory. A run creates and drops a thousand databases, which takes several times as
 * long on a disk.
 */
function hasMemory(): boolean {
  try {
    const { bavail, bsize } = statfsSync(memory)
    const mount = readFileSync('/proc/mounts', 'utf8')
      .split('\n')
      .map((line) => line.split(' '))
      .findLast(([, place]) => place === memory)
    return bavail * bsize > minFreeBytes && mount !== undefined && !mount[3]!.split(',').includes('noexec')
  } catch {
    return false // This system has no such file system.
  }
}

const settings = {
  max_connections: '200',
  shared_preload_libraries: 'pg_stat_statements',
  // Large enough that the statements of other tests do not evict those of a test.
  'pg_stat_statements.max': '20000',
  // A session whose client falls silent while it logs in takes no part in the barrier that `drop database` waits for. By default, each drop of
  // another test would wait for a minute.
  authentication_timeout: '5s',
  // No data is needed after the run, and tests of crashes kill processes and never the operating system.
  fsync: 'off',
  full_page_writes: 'off',
}

/** Initialises a server, creates the template, and stops the server, so that tests can copy it. */
async function prepareServer(dataDir: string): Promise<PreparedServer> {
  const binDir = process.env.HOLDFAST_TEST_PG_BIN || undefined
  const server = await startEmbedded({ binDir, dataDir, settings })
  try {
    if ((await versionOf(server.url)) >= 16) await weakenPassword(server.url)
    await makeTemplate(server.url)
  } finally {
    await server.stop('fast')
  }
  return { binDir, dataDir, templateName }
}

/** Installs the extension and Holdfast's schema in the template. */
async function prepareTemplate(url: string): Promise<void> {
  await query(url, 'create extension if not exists pg_stat_statements')
  const database = openPgPool({ connectionString: url })
  await migrate(database, 'holdfast')
  await database.close()
}

async function makeTemplate(adminUrl: string): Promise<void> {
  await query(adminUrl, `drop database if exists ${templateName} with (force)`)
  await query(adminUrl, `create database ${templateName}`)
  const url = new URL(adminUrl)
  url.pathname = `/${templateName}`
  await prepareTemplate(url.href)
  // A database with a session cannot be cloned. From now on, no session can connect, not even autovacuum.
  await query(adminUrl, `alter database ${templateName} allow_connections false`)
}

/**
 * Stores the verifier of the password with one iteration instead of 4,096. The client repeats the iterations for each connection, which takes half of
 * its time, and a run opens tens of thousands of connections.
 */
async function weakenPassword(url: string): Promise<void> {
  const { username, password } = new URL(url)
  await query(url, `set scram_iterations = 1; alter role ${username} password '${password}'`)
}

/**
 * Copies files, and not pages through the WAL, which is the default since PostgreSQL 15. To create and drop a database then takes the server about
 * 40 % less CPU time. PostgreSQL 14 always copies files.
 */
async function cloneClauseFor(adminUrl: string): Promise<string> {
  return `template ${templateName}${(await versionOf(adminUrl)) >= 15 ? ' strategy file_copy' : ''}`
}

/** Returns the major version. */
async function versionOf(url: string): Promise<number> {
  const [row] = await query(url, 'show server_version_num')
  return Math.floor(Number(row!.server_version_num) / 10_000)
}

async function query(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query(sql)).rows
  } finally {
    await client.end()
  }
}
