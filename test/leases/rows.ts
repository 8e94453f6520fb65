import { sql } from '../setup/facts.js'

export interface LeaseRow {
  token: string
  instance: string
  fence: number
  ttlMs: number
  /** Time until the lease expires. Negative if it has expired. */
  leftMs: number
  /** Time of expiry by the clock of the database. */
  expiresAtMs: number
  hasWaiters: boolean
}

/** Returns the row of a key, or undefined if there was never a lease. */
export async function leaseRow(url: string, key: string): Promise<LeaseRow | undefined> {
  const [row] = await sql<LeaseRow>(
    url,
    `select token, instance, fence::float8, ttl_ms as "ttlMs", has_waiters as "hasWaiters",
       (extract(epoch from expires_at - clock_timestamp()) * 1000)::float8 as "leftMs",
       (extract(epoch from expires_at) * 1000)::float8 as "expiresAtMs"
     from holdfast.lease
     where key = $1`,
    [key],
  )
  return row
}

/** Returns the number of names that are leased now, by all instances or by one. */
export async function leasedNames(url: string, instance?: string): Promise<number> {
  const [row] = await sql<{ count: number }>(
    url,
    `select count(*)::integer
     from holdfast.lease
     where expires_at > clock_timestamp()
       and ($1::text is null or instance = $1)`,
    [instance],
  )
  return row!.count
}

/** Expires a lease, as if its holder had not renewed it. */
export async function letExpire(url: string, key: string): Promise<void> {
  await sql(url, "update holdfast.lease set expires_at = clock_timestamp() - interval '1 ms' where key = $1", [key])
}

/** Revokes a lease as an operator does. */
export async function takeAway(url: string, key: string): Promise<void> {
  await sql(url, "update holdfast.lease set token = '', expires_at = clock_timestamp() where key = $1", [key])
}
