// Measures how many connections 1,000 held locks need.
import { Holdfast } from 'holdfast'
import type { Options } from '../measure.ts'
import { query } from '../server.ts'
import { table } from '../table.ts'

const count = 1_000

/** Counts the advisory locks on 64-bit keys, and the connections that hold them. */
const countLocks = `
select count(*)::integer as locks, count(distinct pid)::integer as connections
from pg_locks
join pg_stat_activity using (pid)
where locktype = 'advisory'
  and objsubid = 1
  and granted
  and datname = current_database()
  and application_name like 'holdfast%'`

export async function held(url: string, { progress }: Options) {
  progress(`locks: ${count} names held`)
  const holdfast = await Holdfast.open({ url, namespace: 'bench' })
  const names = Array.from({ length: count }, (_, number) => `held:${number}`)
  const timed = async <Result>(work: () => Promise<Result>): Promise<[Result, number]> => {
    const from = performance.now()
    const result = await work()
    return [result, Math.round((performance.now() - from) * 10) / 10]
  }
  const [locks, newMs] = await timed(() => Promise.all(names.map((name) => holdfast.locks.acquire(name))))
  const [{ locks: heldCount, connections }] = await query(url, countLocks)
  const [, releaseMs] = await timed(() => Promise.all(locks.map((lock) => lock.release())))
  const [again, knownMs] = await timed(() => Promise.all(names.map((name) => holdfast.locks.acquire(name))))
  await Promise.all(again.map((lock) => lock.release()))
  await holdfast.close()
  return { locks: heldCount, connections, newMs, knownMs, releaseMs }
}

export function showHeld({ locks, connections, newMs, knownMs, releaseMs }: Awaited<ReturnType<typeof held>>) {
  return table(
    ['Held at the same time, according to pg_locks', 'locks', 'connections', 'acquire ms', 'again ms', 'release ms'],
    [['holdfast, one lock for each name', locks, connections, newMs, knownMs, releaseMs]],
  )
}
