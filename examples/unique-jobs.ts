// Two processes bill the same customer at the same time: one job. A draft is saved when nobody has typed for a moment, with what was
// typed last. And a mail goes out once within an hour, however often it is asked for.
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
  console.log(`enqueued: ${[one, another].filter(({ isNew }) => isNew).length}, the same job: ${one.id === another.id}`)

  holdfast.jobs.work([bill, saveDraft, remind])
  await holdfast.jobs.result(one)
  const later = await holdfast.jobs.enqueue(bill, { customer: 42 }, { unique: 'customer:42' })
  console.log(`after it has ended there may be another: ${later.isNew}`)

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
  console.log(`reminded again within the hour: ${second.isNew}`)

  await other.close()
  await holdfast.close()
})

// prints:
// enqueued: 1, the same job: true
// after it has ended there may be another: true
// saved: [ 'Hello' ]
// reminded again within the hour: false
