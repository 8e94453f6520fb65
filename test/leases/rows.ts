import { sql } from '../setup/facts.js'

export interface LeaseRow {
  token: string
  instance: string
  fence: number
  ttlMs: number
  /** When it is free; negative when it is. */
  leftMs: number
  /** The same, as a time of the database. */
  expiresAtMs: number
  hasWaiters: boolean
}

/** The row of a key, as the database has it; undefined where there was never a lease. */
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

/** How many names are leased now, all together or by one instance. */
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

/** Lets the time of a lease be over, as if nobody had renewed it. */
export async function letExpire(url: string, key: string): Promise<void> {
  await sql(url, "update holdfast.lease set expires_at = clock_timestamp() - interval '1 ms' where key = $1", [key])
}

/** What an operator does to a lease. */
export async function takeAway(url: string, key: string): Promise<void> {
  await sql(url, "update holdfast.lease set token = '', expires_at = clock_timestamp() where key = $1", [key])
}
