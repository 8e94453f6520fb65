// Does what the plan says. Each fault begins, and answers with what ends it again, if it lasts. What takes locks away in the same
// instant in which it says so is noted in the history with the processes that it strikes: no deadline can come before it.
import { execFile } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import pg from 'pg'
import type { Torment } from './cluster.ts'
import type { Step } from './plan.ts'

const commandLine = fileURLToPath(new URL('../dist/cli/bin.js', import.meta.url))

/** A connection of the nemesis' own: whatever it does may fail when something else strikes. */
async function session(url: string) {
  const client = new pg.Client({ connectionString: url, application_name: 'nemesis', connectionTimeoutMillis: 5_000 })
  client.on('error', () => {})
  await client.connect()
  return client
}

/** Transaction ids below 3 and the largest snapshot are no ids of transactions, but marks. */
const movedIds = `
create or replace function pg_temp.moved(xid xid8, ahead integer) returns xid8 language sql as $$
  select case when xid < '3' or xid > '9000000000000000000' then xid else (xid::text::bigint + ahead)::text::xid8 end
$$;
create or replace function pg_temp.moved(snapshot pg_snapshot, ahead integer) returns pg_snapshot language sql as $$
  select concat_ws(
    ':', pg_temp.moved(pg_snapshot_xmin(snapshot), ahead), pg_temp.moved(pg_snapshot_xmax(snapshot), ahead),
    (select coalesce(string_agg(pg_temp.moved(xid, ahead)::text, ',' order by xid), '') from pg_snapshot_xip(snapshot) as xid)
  )::pg_snapshot
$$`

/** Each finds those details in its step that the plan gives to it. */
type Act = (world: Torment, step: Required<Step>) => unknown

export const faults: Record<string, Act> = {
  async kill({ places }, { on }) {
    await places[on]!.kill()
    return () => places[on]!.start()
  },

  freeze({ places }, { on, forMs }) {
    places[on]!.deafen(forMs)
    places[on]!.freeze()
    return () => places[on]!.thaw()
  },

  cut({ places }, { on, forMs, directions, forgets }) {
    places[on]!.deafen(forMs)
    places[on]!.network.cut(directions, forgets)
    return () => places[on]!.network.heal()
  },

  'lose an answer'({ places }, { on }) {
    places[on]!.deafen(0)
    places[on]!.network.loseAnAnswer()
  },

  delay({ places }, { on, forMs, ms }) {
    places[on]!.deafen(forMs)
    places[on]!.network.delay(ms)
    return () => places[on]!.network.delay(0)
  },

  block({ places }, { on, ms }) {
    places[on]!.deafen(ms)
    places[on]!.order('block', { ms })
  },

  'move a clock'({ places }, { on, clockMs }) {
    places[on]!.order('believeIn', { clockMs })
  },

  /**
   * Sessions of the fleet, but for those of whoever cannot hear of it: no lock of PostgreSQL survives both, and nobody could know (decision
   * 9). Poolers and pools have sessions that are nobody's alone.
   */
  async terminate({ url, places, ending }, { part, draw }) {
    const deaf = places.filter(({ isDeaf }) => isDeaf).map(({ instanceId }) => `holdfast ${instanceId}`)
    const client = await session(url)
    const end = ending('all')
    try {
      await client.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and application_name like 'holdfast%' and application_name <> all($1)
           and abs(hashint4(pid + $2)) % 100 < 100 * $3::float8`,
        [deaf, draw, part],
      )
    } finally {
      end()
      await client.end()
    }
  },

  async restart({ server, ending }, { mode }) {
    const end = ending('all')
    try {
      await server.restart(mode)
    } finally {
      end()
    }
  },

  /** As when the kernel kills one for its memory: the server ends all of them, and recovers. */
  async 'crash a backend'({ url, ending }) {
    const client = await session(url)
    const { rows } = await client.query('select pg_backend_pid() as pid')
    const end = ending('all')
    try {
      process.kill(rows[0].pid, 'SIGKILL')
      while (
        !(await session(url).then(
          (one) => one.end().then(() => true),
          () => false,
        ))
      )
        await sleep(50)
    } finally {
      end()
    }
  },

  /**
   * Does to the tables what a restore into another cluster does. The sequences go back to where they were at the beginning. The stored
   * transaction ids are by `ahead` larger than those that this cluster assigns. Another transaction has written the row of fencing. The
   * rows stay, so that there is something to judge.
   */
  async restore({ url, backup, ending }, { ahead }) {
    const client = await session(url)
    const end = ending('all')
    try {
      await client.query("set lock_timeout = '5s'; begin")
      // Nothing is granted or enqueued in between.
      await client.query('lock table holdfast.server_generation, holdfast.lease in access exclusive mode')
      const { rows: others } = await client.query(
        `select pid, pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()`,
      )
      const pids = others.map(({ pid }) => pid)
      while ((await client.query('select from pg_locks where pid = any($1) limit 1', [pids])).rowCount! > 0)
        await sleep(20)
      await client.query("select setval('holdfast.fence', $1), setval('holdfast.job_number', $2)", backup)
      await client.query(movedIds)
      await client.query('update holdfast.job set xid = pg_temp.moved(xid, $1)', [ahead])
      await client.query(
        'update holdfast.frontier set base = pg_temp.moved(base, $1), upto = pg_temp.moved(upto, $1), at_xid = pg_temp.moved(at_xid, $1)',
        [ahead],
      )
      await client.query('update holdfast.server_generation set written_by = written_by; commit')
    } finally {
      end()
      await client.end()
    }
  },

  'restart the pooler': ({ pooler }) => pooler?.restart(),

  async 'fill the lock table'({ url }) {
    const client = await session(url)
    // Locks that a failed statement has taken are kept by the session.
    await client.query('select pg_advisory_lock_shared(-7, n) from generate_series(1, 1000000) as n').catch(() => {})
    return () => client.end()
  },

  async 'fill the connections'({ url }) {
    const clients: pg.Client[] = []
    try {
      for (;;) clients.push(await session(url))
    } catch {
      // There is no more room.
    }
    return () => Promise.all(clients.map((client) => client.end()))
  },

  async 'forget a snapshot'({ url }) {
    const client = await session(url)
    await client.query('begin isolation level repeatable read; select count(*) from pg_class')
    return () => client.end()
  },

  async 'build an index'({ url }, { table }) {
    const client = await session(url)
    try {
      await client.query("set statement_timeout = '15s'")
      // An index of a partitioned table cannot be built concurrently, but one of its partitions can.
      const { rows } = await client.query(
        `select relid::text as name from pg_partition_tree('holdfast.${table}') where isleaf order by pg_relation_size(relid) desc`,
      )
      await client.query(`create index concurrently nemesis_${table} on ${rows[0]?.name ?? `holdfast.${table}`} ((1))`)
    } finally {
      await client.query(`drop index if exists holdfast.nemesis_${table}`).finally(() => client.end())
    }
  },

  async migrate({ url }) {
    await promisify(execFile)(process.execPath, [commandLine, 'migrate', '--url', url])
  },
}
