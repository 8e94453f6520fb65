// Tests jobs with holdfast/testing: checks the enqueued jobs, their results, and a retry after ten minutes, without
// waiting for ten minutes. The functions work with any test runner. This example uses plain assertions.
import assert from 'node:assert/strict'
import { defineJob, Holdfast } from 'holdfast'
import { drain, emptyQueues, enqueued, passTime } from 'holdfast/testing'
import { withDatabase } from './database.ts'

// The program under test.
const outbox: string[] = []
const welcome = defineJob('welcome', { run: ({ to }: { to: string }) => outbox.push(to) })
const remind = defineJob('remind', {
  retry: { attempts: 2, backoff: '10m' },
  run: (_: { to: string }, { attempt }) => {
    if (attempt === 1) throw new Error('the mail server is down')
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
  console.log('a sign-up enqueues a welcome and a reminder')

  await drain(holdfast, [welcome, remind])
  assert.deepEqual(outbox, ['ada@example.com'])
  console.log('the welcome runs immediately, the reminder does not')

  await passTime(holdfast, '1d')
  const [failed] = await drain(holdfast, [remind])
  assert.equal(failed?.failures[0]?.message, 'the mail server is down')
  await passTime(holdfast, '10m')
  const [reminded] = await drain(holdfast, [remind])
  assert.equal(reminded?.result, 'reminded')
  console.log('the reminder succeeds in its second attempt')

  await emptyQueues(holdfast)
  assert.deepEqual(await enqueued(holdfast), [])
  console.log('the queues are empty for the next test')
  await holdfast.close()
})

// prints:
// a sign-up enqueues a welcome and a reminder
// the welcome runs immediately, the reminder does not
// the reminder succeeds in its second attempt
// the queues are empty for the next test
