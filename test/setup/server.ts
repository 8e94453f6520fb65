// One server for the whole run:
//   HOLDFAST_TEST_URL=postgres://…                       an existing one, as a superuser
//   HOLDFAST_TEST_PG_BIN=/usr/lib/postgresql/15/bin      another version, started here
//   neither                                              the embedded PostgreSQL
import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { startEmbedded } from '../../src/embedded/index.js'
import { migrate, openPgPool } from '../../src/postgres/index.js'

declare module 'vitest' {
  interface ProvidedContext {
    /** A superuser's address of the server's maintenance database. */
    adminUrl: string
    /** The database that `freshDatabase` clones. */
    templateName: string
  }
}

const templateName = 'holdfast_template'

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const given = process.env.HOLDFAST_TEST_URL
  const server = given ? undefined : await startServer()
  const adminUrl = server?.url ?? given!
  try {
    await makeTemplate(adminUrl)
  } catch (error) {
    await server?.stop()
    throw error
  }
  project.provide('adminUrl', adminUrl)
  project.provide('templateName', templateName)
  return async () => server?.stop('immediate')
}

function startServer() {
  return startEmbedded({
    binDir: process.env.HOLDFAST_TEST_PG_BIN || undefined,
    settings: {
      max_connections: '200',
      shared_preload_libraries: 'pg_stat_statements',
      // Nothing here outlives the run, and a test of crashes kills processes, never the operating system.
      fsync: 'off',
      full_page_writes: 'off',
    },
  })
}

/** What every test's database has from the start. */
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
  // A database with a session in it cannot be cloned. Nobody, not even autovacuum, gets in from here on.
  await query(adminUrl, `alter database ${templateName} allow_connections false`)
}

async function query(url: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(sql)
  } finally {
    await client.end()
  }
}
