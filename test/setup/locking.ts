import { sql, until } from './facts.js'

/** Returns the number of held advisory locks with 64-bit keys in the database, or with one key. */
export async function heldLocks(url: string, key?: string): Promise<number> {
  const [row] = await sql<{ count: number }>(url, `select count(*)::int from (${locksOf}) l where granted`, [key])
  return row!.count
}

/** Waits until `count` sessions wait for the key in the server's queue. */
export async function untilWaiting(url: string, key: string, count = 1): Promise<void> {
  await until(`${count} sessions wait for ${key}`, async () => {
    const [row] = await sql<{ count: number }>(url, `select count(*)::int from (${locksOf}) l where not granted`, [key])
    return row!.count >= count
  })
}

/** Waits until no advisory lock is held in the database. */
export async function untilNoLocks(url: string): Promise<void> {
  await until('no lock is left', async () => (await heldLocks(url)) === 0)
}

/** Ends the sessions that hold the key, as an administrator would. */
export async function terminateHolder(url: string, key: string): Promise<void> {
  await sql(url, `select pg_terminate_backend(pid) from (${locksOf}) l where granted`, [key])
}

const locksOf = `
select pid, granted, mode
from pg_locks
where locktype = 'advisory'
  and objsubid = 1
  and database = (select oid from pg_database where datname = current_database())
  and ($1::bigint is null or (classid::bigint << 32) | objid::bigint = $1::bigint)`
