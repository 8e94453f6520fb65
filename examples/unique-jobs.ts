// Shows three kinds of unique jobs. Two processes bill the same customer at the same time, which creates one job. A draft is saved after a pause in
// typing, with the latest text. A mail is sent at most once per hour, even if it is enqueued more often.
import { defineJob, Holdfast } from 'holdfast'
import { withDatabase } from './database.ts'

const saved: string[] = []
const bill = defineJob('bill', { queue: 'billing', run: (_: { customer: number }) => {} })
const saveDraft = defineJob('save-draft', { queue: 'drafts', run: ({ text }: { text: string }) => saved.push(text) })
const remind = defineJob('remind', { queue: 'mail', run: () => 'sent' })

await withDatabase(async (url) => {
  const holdfast = await Holdfast.open({ url, namespace: 'examples' })
  const other = await Holdfast.open({ url, namespace: 'examples' })

  const [one, another] = await Promise.all([
    holdfast.jobs.enqueue(bill, { customer: 42 }, { unique: 'customer:42' }),
    other.jobs.enqueue(bill, { customer: 42 }, { unique: 'customer:42' }),
  ])
  console.log(
    `new jobs: ${[one, another].filter(({ isNew }) => isNew).length}, both calls returned the same job: ${one.id === another.id}`,
  )

  holdfast.jobs.work([bill, saveDraft, remind])
  await holdfast.jobs.result(one)
  const later = await holdfast.jobs.enqueue(bill, { customer: 42 }, { unique: 'customer:42' })
  console.log(`a new job after the first job ended: ${later.isNew}`)

  const unique = { key: 'draft:7', until: 'started', existing: 'debounce' } as const
  const save = (text: string) => holdfast.jobs.enqueue(saveDraft, { text }, { delay: '300ms', unique })
  await save('H')
  await save('He')
  const draft = await save('Hello')
  await holdfast.jobs.result(draft)
  console.log('saved:', saved)

  const mail = { unique: { key: 'remind:42', for: '1h' } } as const
  const first = await holdfast.jobs.enqueue(remind, null, mail)
  await holdfast.jobs.result(first)
  const second = await holdfast.jobs.enqueue(remind, null, mail)
  console.log(`a new job within the hour: ${second.isNew}`)

  await other.close()
  await holdfast.close()
})

// prints:
// new jobs: 1, both calls returned the same job: true
// a new job after the first job ended: true
// saved: [ 'Hello' ]
// a new job within the hour: false
