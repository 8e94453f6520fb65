// An administrator ends the session of a holder that believes it is in the middle of its work. Another instance takes
// over and writes; then the first one's late write comes, and is refused.
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
  const told = new Promise((resolve) => early.signal.addEventListener('abort', () => resolve(early.signal.reason.code)))
  await client.query('select pg_terminate_backend(backend_pid) from holdfast.instance where id = $1', [first.id])
  console.log(`the first holder is told: ${await told}`)

  const later = await second.locks.acquire('report')
  console.log(`the later fence is larger: ${later.fence > early.fence}`)
  await write(client, later.keys[0]!, later.fence, 'second')
  await write(client, early.keys[0]!, early.fence, 'first')

  await client.end()
  await first.close()
  await second.close()
})

// What a program does that does not look at its signal: it only sends the fence along.
async function write(client: pg.Client, key: string, fence: number, who: string) {
  await client.query('begin')
  try {
    await client.query('select holdfast.guard_key($1, $2)', [key, fence])
    await client.query('insert into report values ($1)', [who])
    await client.query('commit')
    console.log(`${who}: written`)
  } catch (error) {
    await client.query('rollback')
    console.log(`${who}: refused (${(error as pg.DatabaseError).code})`)
  }
}

// prints:
// the first holder is told: LOCK_LOST
// the later fence is larger: true
// second: written
// first: refused (HF001)
