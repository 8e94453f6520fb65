// Runs PgQ, the queue of Skype's SkyTools. A consumer receives the events between two ticks as one batch, and acknowledges the batch as a whole.
// PgQ keeps no state per job and no history. Best: frequent ticks, and bulk inserts into the event table, as the producers of SkyTools do.
import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { Addresses, Handle, Payload, Queue, Settings } from '../jobs/contestants.ts'

/** Folder of Debian's PostgreSQL 15. Debian packages PgQ for this version. */
export const pgqBinDir = '/usr/lib/postgresql/15/bin'

const required = [`${pgqBinDir}/postgres`, '/usr/share/postgresql/15/extension/pgq.control']

export function whyNoPgq() {
  const missing = required.filter((file) => !existsSync(file))
  if (missing.length === 0) return null
  return `${missing.join(' and ')} missing (apt-get install -y --no-install-recommends postgresql-15 postgresql-15-pgq3)`
}

interface Tuning {
  tickMs: number
  ticker_max_count: number
  /** Pause of a consumer after it found no batch. */
  pollMs: number
}

const tuning: Tuning = { tickMs: 20, ticker_max_count: 1, pollMs: 5 }

export const settings: Settings<Tuning> = { best: tuning }

const schema = `
create extension if not exists pgq;
select pgq.create_queue('work'), pgq.set_queue_config('work', 'ticker_max_count', '${tuning.ticker_max_count}');
select pgq.register_consumer('work', 'bench');
create or replace function insert_events(payloads json) returns void language plpgsql as $$
begin
  execute format(
    'insert into %s (ev_time, ev_type, ev_data) select now(), $2, value::text from json_array_elements($1)',
    pgq.current_event_table('work')
  ) using payloads, 'work';
end $$`

export async function open({ url }: Addresses): Promise<Queue> {
  const pool = new pg.Pool({ connectionString: url })
  await pool.query(schema)
  return {
    enqueue: (payload) => pool.query(`select pgq.insert_event('work', 'work', $1)`, [JSON.stringify(payload)]),
    enqueueMany: (payloads) => pool.query('select insert_events($1)', [JSON.stringify(payloads)]),
    async work(handle) {
      let isOpen = true
      const loops = [tick, consume].map((loop) => loop(pool, () => isOpen, handle))
      return () => {
        isOpen = false
        return Promise.all(loops)
      }
    },
    close: () => pool.end(),
  }
}

/** Does what the daemon pgqd does. */
async function tick(pool: pg.Pool, isOpen: () => boolean) {
  while (isOpen()) {
    await pool.query(`select pgq.ticker('work')`)
    await sleep(tuning.tickMs)
  }
}

async function consume(pool: pg.Pool, isOpen: () => boolean, handle: Handle) {
  while (isOpen()) {
    const { rows } = await pool.query<{ id: string | null }>(`select pgq.next_batch('work', 'bench') as id`)
    const id = rows[0]?.id
    if (!id) await sleep(tuning.pollMs)
    else {
      const events = await pool.query<{ ev_data: string }>('select ev_data from pgq.get_batch_events($1)', [id])
      for (const { ev_data } of events.rows) await handle(JSON.parse(ev_data) as Payload)
      await pool.query('select pgq.finish_batch($1)', [id])
    }
  }
}
