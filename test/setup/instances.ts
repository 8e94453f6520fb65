import { randomBytes } from 'node:crypto'
import { inject, onTestFinished } from 'vitest'
import { Holdfast, type HoldfastOptions } from '../../src/index.js'
import { freshDatabase } from './database.js'
import { sql } from './facts.js'

/** An instance that is closed when the test has finished. */
export async function open(options: HoldfastOptions): Promise<Holdfast> {
  const instance = await Holdfast.open(options)
  onTestFinished(() => instance.close())
  return instance
}

/** Several instances in a namespace of their own. */
export function openFleet(url: string, size: number, options: Partial<HoldfastOptions> = {}): Promise<Holdfast[]> {
  const namespace = `fleet ${randomBytes(4).toString('hex')}`
  return Promise.all(Array.from({ length: size }, () => open({ url, namespace, ...options })))
}

/** The address of a database of the test's own, dropped when it has finished. */
export async function databaseUrl(): Promise<string> {
  const database = await freshDatabase()
  onTestFinished(() => database.drop())
  return database.url
}

/** The same, without Holdfast in it. */
export async function emptyDatabaseUrl(): Promise<string> {
  const url = await databaseUrl()
  await sql(url, 'drop schema holdfast cascade')
  return url
}

/** The address of the same database for a new role, which may log in and no more. Dropped when the test has finished. */
export async function roleUrl(url: string, attributes = ''): Promise<{ url: string; role: string }> {
  const role = `holdfast_role_${randomBytes(4).toString('hex')}`
  await sql(url, `create role ${role} login password 'role-secret' ${attributes}`)
  onTestFinished(async () => {
    // Its rights in this database go with `drop owned`; the database itself may be gone already.
    await sql(url, `drop owned by ${role}`).catch(() => {})
    await sql(inject('adminUrl'), `drop role if exists ${role}`)
  })
  const address = new URL(url)
  address.username = role
  address.password = 'role-secret'
  return { url: address.href, role }
}

/** The server process of an instance's anchor. */
export async function anchorPid(url: string, instance: Holdfast): Promise<number> {
  const [row] = await sql<{ backend_pid: number }>(url, 'select backend_pid from holdfast.instance where id = $1', [
    instance.id,
  ])
  return row!.backend_pid
}
