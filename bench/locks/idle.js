// What an open instance costs while nobody asks it for anything. Counted by pg_stat_statements, so on a server of its
// own: where the others are measured, nothing should count along.
import { setTimeout as sleep } from 'node:timers/promises'
import { Holdfast } from 'holdfast'
import { benchDatabase, query } from '../server.js'
import { table } from '../table.js'

const watchMs = 25_000

const spent = `
select coalesce(sum(calls), 0)::float8 as statements, coalesce(sum(total_exec_time), 0) as ms
from pg_stat_statements
where dbid = (select oid from pg_database where datname = current_database())
  and query not like '%pg_stat_statements%'`

export async function idle({ progress }) {
  const database = await benchDatabase({ shared_preload_libraries: 'pg_stat_statements' })
  try {
    await query(database.url, 'create extension if not exists pg_stat_statements')
    const holdfast = await Holdfast.open({ url: database.url, namespace: 'bench' })
    // Once used, and then a moment for what that set going.
    await holdfast.locks.with('used', () => {})
    await sleep(3_000)
    progress(`locks: idle for ${watchMs / 1_000} s`)
    const [before] = await query(database.url, spent)
    const from = performance.now()
    await sleep(watchMs)
    const [after] = await query(database.url, spent)
    const seconds = (performance.now() - from) / 1_000
    const statements = after.statements - before.statements
    await holdfast.close()
    return {
      statementsPerSecond: round(statements / seconds),
      meanExecMs: round((after.ms - before.ms) / Math.max(1, statements)),
      goal: 0.5,
    }
  } catch (error) {
    // A server of the user's own may not have it.
    if (error.code === '55000' || error.code === '58P01' || error.code === '0A000' || error.code === '42501') {
      return { unmeasured: error.message }
    }
    throw error
  } finally {
    await database.close()
  }
}

export function showIdle({ statementsPerSecond, meanExecMs, goal, unmeasured }) {
  if (unmeasured) return `Idle cost not measured: ${unmeasured}`
  return table(
    ['Idle', 'statements/s', 'mean ms in the server', 'goal'],
    [['holdfast, an open instance', statementsPerSecond, meanExecMs, `< ${goal}`]],
  )
}

function round(value) {
  return Number(value.toPrecision(3))
}
