// How a program tests its jobs, with the kit of holdfast/testing: what was enqueued, what becomes of it, and that it is tried again
// in ten minutes, without waiting for them. Any runner will do; here plain assertions do.
import assert from 'node:assert/strict'
import { defineJob, Holdfast } from 'holdfast'
import { drain, emptyQueues, enqueued, passTime } from 'holdfast/testing'
import { withDatabase } from './database.ts'

// What is tested.
const outbox: string[] = []
const welcome = defineJob('welcome', { run: ({ to }: { to: string }) => outbox.push(to) })
const remind = defineJob('remind', {
  retry: { attempts: 2, backoff: '10m' },
  run: (_: { to: string }, { attempt }) => {
    if (attempt === 1) throw new Error('the mail server is away')
    return 'reminded'
  },
})
async function signUp(holdfast: Holdfast, to: string) {
  await holdfast.jobs.enqueue(welcome, { to })
  await holdfast.jobs.enqueue(remind, { to }, { delay: '1d' })
}

await withDatabase(async (url) => {
  const holdfast = await Holdfast.open({ url, namespace: 'test' })

  await signUp(holdfast, 'ada@example.com')
  const kinds = (await enqueued(holdfast)).map(({ kind }) => kind)
  assert.deepEqual(kinds, ['welcome', 'remind'])
  console.log('who signs up is welcomed, and will be reminded')

  await drain(holdfast, [welcome, remind])
  assert.deepEqual(outbox, ['ada@example.com'])
  console.log('the welcome goes out at once, the reminder does not')

  await passTime(holdfast, '1d')
  const [failed] = await drain(holdfast, [remind])
  assert.equal(failed?.failures[0]?.message, 'the mail server is away')
  await passTime(holdfast, '10m')
  const [reminded] = await drain(holdfast, [remind])
  assert.equal(reminded?.result, 'reminded')
  console.log('the reminder is tried again')

  await emptyQueues(holdfast)
  assert.deepEqual(await enqueued(holdfast), [])
  console.log('nothing is left for the next test')
  await holdfast.close()
})

// prints:
// who signs up is welcomed, and will be reminded
// the welcome goes out at once, the reminder does not
// the reminder is tried again
// nothing is left for the next test
