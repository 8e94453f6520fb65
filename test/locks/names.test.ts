// The registry of names is written in the background. A lock that is released before that needs no name, because people hardly see such a lock.
import { expect, test } from 'vitest'
import { sql, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'

const labels = async (url: string) =>
  (await sql<{ label: string }>(url, 'select label from holdfast.name')).map(({ label }) => label)

test('names of locks that are released immediately are not all registered', async () => {
  const url = await databaseUrl()
  const { locks } = await open({ url })
  for (let invoice = 0; invoice < 300; invoice++) await (await locks.acquire(`invoice:${invoice}`)).release()
  const last = await locks.acquire('last')
  await until('the name of a lock that is held is registered', async () => (await labels(url)).includes('last'))
  await last.release()
  // Each registration takes the one name that is in use at that time, and there are at most ten registrations in a second.
  expect((await labels(url)).length).toBeLessThan(150)
})

test('a name is registered although another caller has released it', async () => {
  const url = await databaseUrl()
  const { locks } = await open({ url })
  // After this registration, the next one is 100 ms away.
  await (await locks.acquire('first')).release()
  const [one, other] = await Promise.all([
    locks.acquire('reports', { mode: 'shared' }),
    locks.acquire('reports', { mode: 'shared' }),
  ])
  await one.release()
  await until('the name is registered', async () => (await labels(url)).includes('reports'))
  await other.release()
})
