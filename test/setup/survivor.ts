// A process that has Holdfast open by each kind of driver. Says "ready", and answers each line with "alive" when it can
// still lock by each. Runs the built package, by itself; see survival.test.ts.
import { createInterface } from 'node:readline'
import { Holdfast } from 'holdfast'
import pg from 'pg'
import postgres from 'postgres'

const url = process.argv[2]!
const pool = new pg.Pool({ connectionString: url })
const sql = postgres(url, { onnotice: () => {} })
const fleet = await Promise.all([
  Holdfast.open({ url }),
  Holdfast.open({ pool }),
  Holdfast.open({ sql: sql }),
  Holdfast.open({ url, anchor: 'none' }),
])

// An idle connection in every pool, and a parked one beside the anchor.
await Promise.all([pool.query('select 1'), sql`select 1`, ...fleet.slice(0, 3).map(({ locks }) => locks.space('idle'))])
const held = await fleet[0].locks.acquire('parked')
const waiting = fleet.slice(1, 3).map(({ locks }) => locks.acquire('parked', { mode: 'shared', wait: '20s' }))
await Promise.all([fleet[1], fleet[2]].map(({ locks }) => locks.tryAcquire('parked', { wait: '300ms' })))
await held.release()
for (const lock of await Promise.all(waiting)) await lock.release()
console.log('ready')

for await (const _ of createInterface({ input: process.stdin })) {
  for (const { locks } of fleet.slice(0, 3)) await locks.with('after it', { wait: '20s' }, () => {})
  for (const { locks } of fleet.slice(0, 3)) await locks.space('after it')
  console.log('alive')
}
