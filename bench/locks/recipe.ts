// The usual recipe for a lock: each lock needs its own connection, because the lock belongs to the connection.
import type pg from 'pg'

export async function recipe(pool: pg.Pool, key: number) {
  const client = await pool.connect()
  try {
    const { rows } = await client.query('select pg_try_advisory_lock($1) as locked', [key])
    if (!rows[0].locked) throw new Error(`Another session has the lock ${key}`)
    await client.query('select pg_advisory_unlock($1)', [key])
  } finally {
    client.release()
  }
}
