import { randomBytes } from 'node:crypto'
import { inject, onTestFinished } from 'vitest'
import { Holdfast, type HoldfastOptions } from '../../src/index.js'
import { freshDatabase } from './database.js'
import { sql } from './facts.js'

/** Opens an instance that logs nothing by default. Closed when the test has finished. */
export async function open(options: HoldfastOptions): Promise<Holdfast> {
  const instance = await Holdfast.open({ log: false, ...options })
  onTestFinished(() => instance.close())
  return instance
}

/** Opens several instances in a new namespace. */
export function openFleet(url: string, size: number, options: Partial<HoldfastOptions> = {}): Promise<Holdfast[]> {
  const namespace = `fleet ${randomBytes(4).toString('hex')}`
  return Promise.all(Array.from({ length: size }, () => open({ url, namespace, ...options })))
}

/** Creates a database for one test and returns its URL. Dropped when the test has finished. */
export async function databaseUrl(): Promise<string> {
  const database = await freshDatabase()
  onTestFinished(() => database.drop())
  return database.url
}

/** Creates a database without Holdfast's schema and returns its URL. */
export async function emptyDatabaseUrl(): Promise<string> {
  const url = await databaseUrl()
  await sql(url, 'drop schema holdfast cascade')
  return url
}

/** Creates a role that may only log in. Returns the URL of the database for this role. Dropped when the test has finished. */
export async function roleUrl(url: string, attributes = ''): Promise<{ url: string; role: string }> {
  const role = `holdfast_role_${randomBytes(4).toString('hex')}`
  await sql(url, `create role ${role} login password 'role-secret' ${attributes}`)
  onTestFinished(async () => {
    // `drop owned` removes the role's rights in this database, which may already be dropped.
    await sql(url, `drop owned by ${role}`).catch(() => {})
    await sql(inject('adminUrl'), `drop role if exists ${role}`)
  })
  const address = new URL(url)
  address.username = role
  address.password = 'role-secret'
  return { url: address.href, role }
}

/** Returns the id of the server process of an instance's anchor. */
export async function anchorPid(url: string, instance: Holdfast): Promise<number> {
  const [row] = await sql<{ backend_pid: number }>(url, 'select backend_pid from holdfast.instance where id = $1', [
    instance.id,
  ])
  return row!.backend_pid
}
