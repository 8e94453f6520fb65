// Runs the scheme of examples/resilient-queue.ts as a contestant. A worker locks a job with an advisory lock, reads its row again, runs the job,
// records the end, and unlocks the job. The table keeps the job history.
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { Addresses, Handle, Payload, Queue, Settings } from './contestants.ts'

interface Tuning {
  /** Each connection runs one job at a time. */
  connections: number
  candidates: number
  pollMs: number
}

/** More connections are slower, because they try to lock the same candidates. */
const tuning: Tuning = { connections: 4, candidates: 20, pollMs: 100 }

export const settings: Settings<Tuning> = { best: tuning }

const schema = `
create table if not exists advisory_job (
  id bigint generated always as identity primary key,
  payload json not null,
  run_at timestamptz not null default now(),
  ended_at timestamptz
);
create index if not exists advisory_job_order on advisory_job (run_at, id) where ended_at is null`

const enqueue = `
insert into advisory_job (payload, run_at)
select payload, now() + make_interval(secs => $2)
from json_array_elements($1::json) as payload`

const listCandidates = `
select id from advisory_job where ended_at is null and run_at <= now() order by run_at, id limit ${tuning.candidates}`

export async function open({ url }: Addresses): Promise<Queue> {
  const pool = new pg.Pool({ connectionString: url })
  await pool.query(schema)
  const add = (payloads: Payload[], delayMs = 0) => pool.query(enqueue, [JSON.stringify(payloads), delayMs / 1_000])
  return {
    enqueue: (payload) => add([payload]),
    enqueueMany: (payloads, { delayMs } = {}) => add(payloads, delayMs),
    async work(handle, concurrency = tuning.connections) {
      let isOpen = true
      const loops = Array.from({ length: concurrency }, () => work(url, handle, () => isOpen))
      return () => {
        isOpen = false
        return Promise.all(loops)
      }
    },
    close: () => pool.end(),
  }
}

async function work(url: string, handle: Handle, isOpen: () => boolean) {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  while (isOpen()) {
    const { rows } = await client.query<{ id: string }>(listCandidates)
    let isIdle = true
    for (const { id } of rows) if (await claimAndRun(client, id, handle)) isIdle = false
    if (isIdle) await sleep(tuning.pollMs)
  }
  await client.end()
}

/** Returns false if another connection runs the job or has finished it. */
async function claimAndRun(client: pg.Client, id: string, handle: Handle) {
  const { rows } = await client.query('select pg_try_advisory_lock($1) as is_ours', [id])
  if (!rows[0].is_ours) return false
  const found = await client.query('select payload from advisory_job where id = $1 and ended_at is null', [id])
  const [job] = found.rows
  if (job) {
    await handle(job.payload)
    await client.query('update advisory_job set ended_at = now() where id = $1', [id])
  }
  await client.query('select pg_advisory_unlock($1)', [id])
  return job !== undefined
}
