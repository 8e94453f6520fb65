// What jobs cost the database: time of its processors, bytes of WAL, dead rows, statements. Of Redis only the time is known.
import { readdirSync, readFileSync } from 'node:fs'
import { query } from '../server.js'

const msPerTick = 10

/** The time of processors that the process and its children have had; undefined where /proc does not tell. */
export function cpuMsOf(pid) {
  try {
    let ticks = 0
    for (const one of readdirSync('/proc')) {
      const stat = /^\d+$/.test(one) && statOf(one)
      if (!stat) continue
      if (one === String(pid)) ticks += stat.own + stat.ended
      else if (stat.parent === pid) ticks += stat.own
    }
    return ticks * msPerTick
  } catch {
    return undefined
  }
}

function statOf(pid) {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /, '')
      .split(' ')
    const [user, system, endedUser, endedSystem] = fields.slice(11, 15).map(Number)
    return { parent: Number(fields[1]), own: user + system, ended: endedUser + endedSystem }
  } catch {
    // It has ended meanwhile.
    return undefined
  }
}

const spent = `
select
  (pg_current_wal_insert_lsn() - '0/0')::float8 as wal,
  (select coalesce(sum(n_tup_upd + n_tup_del), 0)::float8 from pg_stat_user_tables) as dead,
  (select coalesce(sum(calls), 0)::float8 from pg_stat_statements where toplevel and query not like '%pg_stat_statements%') as statements`

export async function spentBy({ url, serverPid }) {
  const [row] = await query(url, spent)
  return { ...row, cpuMs: serverPid === undefined ? undefined : cpuMsOf(serverPid) }
}
