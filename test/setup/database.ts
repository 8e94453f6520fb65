import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { inject } from 'vitest'

export interface FreshDatabase {
  url: string
  /** Ends every session in it. */
  drop(): Promise<void>
}

/** SQLSTATE OBJECT_IN_USE: the template has a session, or another clone of it is being made. */
const objectInUse = '55006'
const maxCloneMs = 20_000

/** Creates a database for one test, cloned from the template of the test run. */
export async function freshDatabase(): Promise<FreshDatabase> {
  const name = `holdfast_test_${process.pid}_${randomBytes(4).toString('hex')}`
  const deadline = Date.now() + maxCloneMs
  for (;;) {
    try {
      await asAdmin(`create database ${name} ${inject('cloneClause')}`)
      break
    } catch (error) {
      if ((error as pg.DatabaseError).code !== objectInUse || Date.now() > deadline) throw error
      await sleep(20)
    }
  }
  const url = new URL(inject('adminUrl'))
  url.pathname = `/${name}`
  return {
    url: url.href,
    async drop() {
      // Otherwise, the statements of a thousand dropped databases displace those of a test that counts its own.
      await asAdmin(`select pg_stat_statements_reset(0, oid, 0) from pg_database where datname = '${name}'`)
      await asAdmin(`drop database if exists ${name} with (force)`)
    },
  }
}

/** One pool per test process, because a run creates and drops a thousand databases. */
let admin: pg.Pool | undefined

async function asAdmin(statement: string): Promise<void> {
  if (!admin) {
    admin = new pg.Pool({ connectionString: inject('adminUrl'), max: 2, allowExitOnIdle: true })
    // A test may end every session of the server. The next statement opens a new connection.
    admin.on('error', () => {}).on('connect', (client) => client.on('error', () => {}))
  }
  await admin.query(statement)
}
