// An administrator ends a lock holder's session while the holder is still working. Another instance acquires the lock
// and writes. The first holder's late write is then rejected.
import { Holdfast } from 'holdfast'
import pg from 'pg'
import { withDatabase } from './database.ts'

await withDatabase(async (url) => {
  const first = await Holdfast.open({ url })
  const second = await Holdfast.open({ url })
  const client = new pg.Client(url)
  await client.connect()
  await client.query('create table if not exists report (written_by text)')

  const early = await first.locks.acquire('report')
  const code = new Promise((resolve) => early.signal.addEventListener('abort', () => resolve(early.signal.reason.code)))
  await client.query('select pg_terminate_backend(backend_pid) from holdfast.instance where id = $1', [first.id])
  console.log(`the first holder was notified: ${await code}`)

  const later = await second.locks.acquire('report')
  console.log(`the later fence is larger: ${later.fence > early.fence}`)
  await write(client, later.keys[0]!, later.fence, 'second')
  await write(client, early.keys[0]!, early.fence, 'first')

  await client.end()
  await first.close()
  await second.close()
})

// Writes as a program that ignores its lock's signal, and only passes the fence to the database.
async function write(client: pg.Client, key: string, fence: number, who: string) {
  await client.query('begin')
  try {
    await client.query('select holdfast.guard_key($1, $2)', [key, fence])
    await client.query('insert into report values ($1)', [who])
    await client.query('commit')
    console.log(`${who}: written`)
  } catch (error) {
    await client.query('rollback')
    console.log(`${who}: rejected (${(error as pg.DatabaseError).code})`)
  }
}

// prints:
// the first holder was notified: LOCK_LOST
// the later fence is larger: true
// second: written
// first: rejected (HF001)
