// Provides callers that acquire and release leases, each with its own name: with Holdfast, or with a handwritten row.
import { Holdfast } from 'holdfast'
import pg from 'pg'
import { loops } from '../measure.ts'

/** Number of connections of Holdfast's own pool. */
const connections = 5

export const byHand = {
  table: `create table if not exists lease_by_hand (
    name text primary key,
    holder text not null,
    expires_at timestamptz not null
  ) with (fillfactor = 50)`,
  acquire: `insert into lease_by_hand as held (name, holder, expires_at)
    values ($1, $2, now() + interval '30 s')
    on conflict (name) do update
    set holder = excluded.holder,
        expires_at = excluded.expires_at
    where held.expires_at < now()`,
  release: 'update lease_by_hand set expires_at = now() where name = $1 and holder = $2',
}

export interface Callers {
  once(caller: number): Promise<void>
  close(): Promise<void>
}

export type Kind = keyof typeof kinds

export const kinds = {
  async holdfast(url: string, prefix: string): Promise<Callers> {
    const holdfast = await Holdfast.open({ url, namespace: 'bench' })
    return {
      async once(caller: number) {
        const lease = await holdfast.leases.tryAcquire(`${prefix}:${caller}`)
        await lease!.release()
      },
      close: () => holdfast.close(),
    }
  },
  async 'by hand'(url: string, prefix: string): Promise<Callers> {
    const pool = new pg.Pool({ connectionString: url, max: connections })
    return {
      async once(caller: number) {
        const values = [`${prefix}:${caller}`, prefix]
        const { rowCount } = await pool.query({ name: 'acquire', text: byHand.acquire, values })
        if (rowCount !== 1) throw new Error('Another holder has the lease')
        await pool.query({ name: 'release', text: byHand.release, values })
      },
      close: () => pool.end(),
    }
  },
}

// As a child process: the parent's messages contain the duration of each run.
const [kind, url, each] = process.argv.slice(2) as [Kind, string, string]
if (process.send) {
  const callers = await kinds[kind](url, String(process.pid))
  process.on('message', async ({ ms }: { ms: number }) => {
    const { perSecond, waitsMs } = await loops(Number(each), ms, callers.once)
    process.send?.({ perSecond, waitsMs })
  })
  process.on('disconnect', () => callers.close())
  process.send({})
}
