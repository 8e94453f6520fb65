import { expect, onTestFinished, test } from 'vitest'
import { defineJob } from '../../src/index.js'
import { sqlSession, stays, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { work } from './fixture.js'

test('jobs of a transaction that stays open while an idle worker looks are found when it commits', async () => {
  const url = await databaseUrl()
  const [consumer, producer] = [await open({ url }), await open({ url })]
  const ran: number[] = []
  const count = defineJob('count', { run: (at: number) => void ran.push(at) })
  const worker = work(consumer, [count])
  await producer.jobs.enqueue(count, 0)
  await until('the first has run', () => ran.length === 1)
  const client = await sqlSession(url)
  // Nothing else ends meanwhile, so this is the newest transaction, and the end of every snapshot lies below it.
  await client.query('begin')
  await producer.jobs.enqueueMany(count, [1, 2, 3, 4, 5], { tx: client })
  const looks = setInterval(() => worker.wake(), 20)
  onTestFinished(() => clearInterval(looks))
  await stays('none of them runs', () => ran.length === 1, 500)
  clearInterval(looks)
  await client.query('commit')
  // Long before anybody looks from the head.
  await until('all have run', () => ran.length === 6, 10_000)
  expect(ran.sort()).toEqual([0, 1, 2, 3, 4, 5])
})
