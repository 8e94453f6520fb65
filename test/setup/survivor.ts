// A process that opens Holdfast with each kind of driver. It prints "ready", and prints "alive" after each line of input if it can still lock with
// each driver. It uses the built package. See survival.test.ts.
import { createInterface } from 'node:readline'
import { Holdfast } from 'holdfast'
import pg from 'pg'
import postgres from 'postgres'

const url = process.argv[2]!
const pool = new pg.Pool({ connectionString: url })
const sql = postgres(url, { onnotice: () => {} })
const fleet = await Promise.all([
  Holdfast.open({ url, log: false }),
  Holdfast.open({ pool, log: false }),
  Holdfast.open({ sql: sql, log: false }),
  Holdfast.open({ url, anchor: 'none', log: false }),
])

// Makes an idle connection in every pool, and a wait connection in addition to the anchor.
await Promise.all([pool.query('select 1'), sql`select 1`, ...fleet.slice(0, 3).map(({ locks }) => locks.space('idle'))])
const held = await fleet[0].locks.acquire('waited for')
const waiting = fleet.slice(1, 3).map(({ locks }) => locks.acquire('waited for', { mode: 'shared', wait: '20s' }))
await Promise.all([fleet[1], fleet[2]].map(({ locks }) => locks.tryAcquire('waited for', { wait: '300ms' })))
await held.release()
for (const lock of await Promise.all(waiting)) await lock.release()
console.log('ready')

for await (const _ of createInterface({ input: process.stdin })) {
  for (const { locks } of fleet.slice(0, 3)) await locks.with('after it', { wait: '20s' }, () => {})
  for (const { locks } of fleet.slice(0, 3)) await locks.space('after it')
  console.log('alive')
}
