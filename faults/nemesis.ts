// Injects the faults. Each function starts one fault. If the fault lasts, the function returns another function that ends it. Faults that end
// sessions are recorded in the history, because PostgreSQL releases a session's locks before it notifies the holder.
import { execFile } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import pg from 'pg'
import type { FaultContext } from './cluster.ts'
import type { Step } from './plan.ts'

const commandLine = fileURLToPath(new URL('../dist/cli/bin.js', import.meta.url))

/** Opens one of the nemesis's connections. Other faults may end this connection. */
async function session(url: string) {
  const client = new pg.Client({ connectionString: url, application_name: 'nemesis', connectionTimeoutMillis: 5_000 })
  client.on('error', () => {})
  await client.connect()
  return client
}

/** Functions that add to transaction ids. Ids below 3 and above 9000000000000000000 are special values and stay the same. */
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

/** Opens a connection for a fault that lasts, and runs a command on it. Closes the connection if the command fails. */
async function sessionAfter(url: string, command: string) {
  const client = await session(url)
  try {
    await client.query(command)
    return client
  } catch (error) {
    await client.end()
    throw error
  }
}

/** Runs a command that locks a table. With a timeout, because the command waits for all transactions that have used the table. */
async function maintain(url: string, command: string) {
  const client = await session(url)
  try {
    await client.query("set lock_timeout = '2s'")
    await client.query(command)
  } finally {
    await client.end()
  }
}

/** Repeats the end of a fault until it succeeds, because the server may be down or full at that moment. */
async function untilDone(work: () => Promise<unknown>, withinMs = 60_000) {
  const deadline = performance.now() + withinMs
  for (;;) {
    try {
      await work()
      return
    } catch (error) {
      if (performance.now() > deadline) throw error
      await sleep(200)
    }
  }
}

/** Returns whether the server runs. While it recovers from a crash, waits for the end of the recovery. */
async function responds(url: string) {
  for (const deadline = performance.now() + 20_000; performance.now() < deadline; await sleep(100)) {
    try {
      await (await session(url)).end()
      return true
    } catch (error) {
      const { code } = error as pg.DatabaseError
      // The server has no free connection.
      if (code === '53300') return true
      if (code === 'ECONNREFUSED') return false
    }
  }
  return false
}

/** Starts a fault. The step has the details that the plan generates for this fault. */
type Act = (cluster: FaultContext, step: Required<Step>) => unknown

export const faults: Record<string, Act> = {
  async kill({ members }, { on }) {
    await members[on]!.kill()
    return () => members[on]!.start()
  },

  freeze({ members }, { on, forMs }) {
    members[on]!.markUnreachable(forMs)
    members[on]!.freeze()
    return () => members[on]!.thaw()
  },

  cut({ members }, { on, forMs, directions, forgets }) {
    members[on]!.markUnreachable(forMs)
    members[on]!.network.cut(directions, forgets)
    return () => members[on]!.network.heal()
  },

  'lose an answer'({ members }, { on }) {
    members[on]!.markUnreachable(0)
    members[on]!.network.loseAnAnswer()
  },

  delay({ members }, { on, forMs, ms }) {
    members[on]!.markUnreachable(forMs)
    members[on]!.network.delay(ms)
    return () => members[on]!.network.delay(0)
  },

  block({ members }, { on, ms }) {
    members[on]!.markUnreachable(ms)
    members[on]!.order('block', { ms })
  },

  'move a clock'({ members }, { on, clockMs }) {
    members[on]!.order('setClock', { clockMs })
  },

  /**
   * Ends the fleet's sessions, except those of members that cannot be notified. PostgreSQL would grant such a session's
   * lock to another process while its holder could not know of the loss (decision 9). Sessions of poolers and pools
   * belong to no single member.
   */
  async terminate({ url, members, ending }, { part, draw }) {
    const unreachable = members
      .filter(({ isUnreachable }) => isUnreachable)
      .flatMap(({ instanceIds }) => instanceIds.map((id) => `holdfast ${id}`))
    const client = await session(url)
    const end = ending('all')
    try {
      await client.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and application_name like 'holdfast%' and application_name <> all($1)
           and abs(hashint4(pid + $2)) % 100 < 100 * $3::float8`,
        [unreachable, draw, part],
      )
    } finally {
      end()
      await client.end()
    }
  },

  async restart({ server, ending }, { mode }) {
    const end = ending('all')
    try {
      await server?.restart(mode)
    } finally {
      end()
    }
  },

  /** Kills a server process, as the kernel does when memory runs out. The server ends all sessions and recovers. */
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
   * Changes the database as a restore into another cluster does. The sequences return to their first values. The stored
   * transaction ids are larger, by `ahead`, than those that this cluster assigns. Another transaction has written the
   * row of `server_generation`. The other tables' rows stay, because the judge needs them.
   */
  async restore({ url, backup, ending }, { ahead }) {
    const client = await session(url)
    const end = ending('all')
    try {
      await client.query("set lock_timeout = '5s'; begin")
      // These locks prevent grants and enqueues until the commit.
      await client.query('lock table holdfast.server_generation, holdfast.lease in access exclusive mode')
      const { rows: others } = await client.query(
        `select pid, pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()`,
      )
      const pids = others.map(({ pid }) => pid)
      while ((await client.query('select from pg_locks where pid = any($1) limit 1', [pids])).rowCount! > 0)
        await sleep(20)
      await client.query(movedIds)
      await client.query('update holdfast.job set xid = pg_temp.moved(xid, $1)', [ahead])
      await client.query(
        'update holdfast.frontier set base = pg_temp.moved(base, $1), upto = pg_temp.moved(upto, $1), at_xid = pg_temp.moved(at_xid, $1)',
        [ahead],
      )
      await client.query('update holdfast.server_generation set written_by = written_by')
      // Last, because a rollback does not undo it. If the fault failed afterwards, the sequences would return without a new generation.
      await client.query("select setval('holdfast.fence', $1), setval('holdfast.job_number', $2)", backup)
      await client.query('commit')
    } finally {
      end()
      await client.end()
    }
  },

  'restart the pooler': ({ pooler }) => pooler?.restart(),

  async 'fill the lock table'({ url }) {
    const client = await session(url)
    // The statement fails when the lock table is full. The session keeps the locks that it has.
    await client.query('select pg_advisory_lock_shared(-7, n) from generate_series(1, 1000000) as n').catch(() => {})
    return () => client.end()
  },

  async 'use up the connections'({ url }) {
    const clients: pg.Client[] = []
    try {
      for (;;) clients.push(await session(url))
    } catch {
      // The server has no free connection slot.
    }
    return () => Promise.all(clients.map((client) => client.end()))
  },

  async 'forget a snapshot'({ url }) {
    const client = await sessionAfter(url, 'begin isolation level repeatable read; select count(*) from pg_class')
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

  /** Ends sessions again and again, also those that have just been opened. */
  async 'keep terminating'(cluster, step) {
    const until = performance.now() + step.forMs
    while (performance.now() < until) {
      await faults.terminate!(cluster, { ...step, draw: step.draw + Math.round(performance.now()) })
      await sleep(100)
    }
  },

  async 'vacuum a table'({ url }, { table }) {
    await maintain(url, `vacuum (full, analyze) holdfast.${table}`)
  },

  async 'reindex a table'({ url }, { table, mode }) {
    await maintain(url, `reindex table ${mode === 'fast' ? 'concurrently ' : ''}holdfast.${table}`)
  },

  async 'lock a table'({ url }, { table }) {
    // Without the timeout, every statement on the table would wait behind this lock while it waits.
    const command = `set lock_timeout = '2s'; begin; lock table holdfast.${table} in access exclusive mode`
    const client = await sessionAfter(url, command)
    return () => client.end()
  },

  /** Drops an index that is not unique. Every statement must still be correct, although it is slower. */
  async 'drop an index'({ url }, { draw }) {
    const client = await session(url)
    const { rows } = await client
      .query(
        `select indexrelid::regclass::text as name, pg_get_indexdef(indexrelid) as definition
         from pg_index join pg_class on pg_class.oid = indexrelid
         where relnamespace = 'holdfast'::regnamespace and not indisunique and not relispartition
         order by name`,
      )
      .finally(() => client.end())
    const { name, definition } = rows[draw % rows.length]
    await maintain(url, `drop index ${name}`)
    const create = definition.replace(' ON ONLY ', ' ON ').replace(' INDEX ', ' INDEX IF NOT EXISTS ')
    return () => untilDone(() => maintain(url, create))
  },

  /** Every table must refuse to be truncated, because the rows of one table belong to rows of other tables. */
  async 'truncate a table'({ url, write }, { table }) {
    try {
      await maintain(url, `truncate holdfast.${table} cascade`)
    } catch (error) {
      if ((error as pg.DatabaseError).code === 'HF005') return
      throw error
    }
    write('wrong', { text: `the table ${table} was truncated` })
  },

  /**
   * Fills the server's disk. Then writes fail, and the server crashes as soon as it needs another WAL file, and does not start again. When the
   * disk has free space again, a person starts the server.
   */
  async 'fill the disk'({ url, server, disk, ending }, { draw }) {
    if (!disk || !server) throw new Error('the server has no disk that can be filled')
    const end = ending('all')
    disk.fill()
    // Fills up the WAL files that exist already. Otherwise, the server may have enough of them. The statement fails, because the
    // disk is full or because the server is down, and then the fault must still end later.
    const text = "select pg_logical_emit_message(false, 'nemesis', repeat('x', 1000000)) from generate_series(1, 2000)"
    if (draw % 2 === 0) await maintain(url, text).catch(() => {})
    return async () => {
      disk.free()
      await untilDone(async () => {
        if (!(await responds(url))) await server.restart('immediate')
      })
      end()
    }
  },

  async 'reset the statistics'({ url }) {
    const client = await session(url)
    await client.query("select pg_stat_reset(), pg_stat_reset_shared('bgwriter'), pg_stat_reset_shared('wal')")
    await client.end()
  },

  /** Changes a default setting of the fleet's role. New sessions get it, so sessions are ended before and after. */
  async 'change a setting'(cluster, step) {
    const change = async (text: string) => {
      await maintain(cluster.url, text)
      await faults.terminate!(cluster, { ...step, part: 1 })
    }
    const undo = () => untilDone(() => change('alter role app reset all'))
    await change(`alter role app set ${step.setting}`).catch(async (error) => {
      await undo()
      throw error
    })
    return undo
  },

  async migrate({ url }) {
    await promisify(execFile)(process.execPath, [commandLine, 'migrate', '--url', url])
  },
}
