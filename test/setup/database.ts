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
  const adminUrl = inject('adminUrl')
  const name = `holdfast_test_${process.pid}_${randomBytes(4).toString('hex')}`
  await asAdmin(adminUrl, async (client) => {
    const deadline = Date.now() + maxCloneMs
    for (;;) {
      try {
        await client.query(`create database ${name} ${inject('cloneClause')}`)
        return
      } catch (error) {
        if ((error as pg.DatabaseError).code !== objectInUse || Date.now() > deadline) throw error
        await sleep(20)
      }
    }
  })
  const url = new URL(adminUrl)
  url.pathname = `/${name}`
  return {
    url: url.href,
    async drop() {
      await asAdmin(adminUrl, (client) => client.query(`drop database if exists ${name} with (force)`))
    },
  }
}

async function asAdmin(url: string, work: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await work(client)
  } finally {
    await client.end()
  }
}
