// Uses all variants of locks on one name: session or transaction locks, shared or exclusive locks, with or without waiting.
import { Holdfast } from 'holdfast'
import pg from 'pg'
import { withDatabase } from './database.ts'

await withDatabase(async (url) => {
  const here = await Holdfast.open({ url })
  const there = await Holdfast.open({ url })
  const client = new pg.Client(url)
  await client.connect()

  const reader = await here.locks.acquire('prices', { mode: 'shared' })
  const another = await there.locks.tryAcquire('prices', { mode: 'shared' })
  console.log(`a second reader: ${another ? 'acquired' : 'busy'}`)
  console.log(`a writer that tries: ${(await there.locks.tryAcquire('prices')) ? 'acquired' : 'busy'}`)

  await client.query('begin')
  const tried = await here.locks.tryInTransaction(client, 'prices')
  console.log(`a writing transaction that tries: ${tried ? 'acquired' : 'busy'}`)
  const late = await here.locks.inTransaction(client, 'prices', { wait: '50ms' }).catch((error) => error.code)
  console.log(`a writing transaction that waits 50 ms: ${late}`)

  const waiting = here.locks.inTransaction(client, 'prices', { wait: '10s' })
  await reader.release()
  await another?.release()
  await waiting
  console.log('a writing transaction that waits, after the readers left: acquired')

  const next = there.locks.acquire('prices', { wait: '10s' })
  await client.query('commit')
  await (await next).release()
  console.log('a writer that waits, after the commit: acquired')

  await client.end()
  await here.close()
  await there.close()
})

// prints:
// a second reader: acquired
// a writer that tries: busy
// a writing transaction that tries: busy
// a writing transaction that waits 50 ms: LOCK_TIMEOUT
// a writing transaction that waits, after the readers left: acquired
// a writer that waits, after the commit: acquired
