// Shows how a program looks at its jobs and changes them. A flash sale sends offers that are worthless after ten minutes (`startBy`). A support
// program lists the jobs of a customer, changes one that has not begun, cancels the jobs of a withdrawn campaign, and watches an export.
import { defineJob, Holdfast } from 'holdfast'
import { passTime } from 'holdfast/testing'
import { withDatabase } from './database.ts'

const sent: string[] = []
const offer = defineJob('offer', {
  queue: 'offers',
  run: ({ to, text }: { to: string; campaign: string; text: string }) => sent.push(`${to}: ${text}`),
})
const exportOrders = defineJob('export-orders', {
  // The partner's service says how long to wait. Its other errors are retried after 1 s, 2 s, 3 s …
  retry: { backoff: (failures, error) => (error as { retryAfterMs?: number }).retryAfterMs ?? failures * 1_000 },
  run: async (_: { year: number }, job) => {
    if (job.attempt === 1) throw Object.assign(new Error('too many requests'), { retryAfterMs: 20 })
    job.progress({ done: 400, total: 400, file: 'orders.csv' })
    return 'orders.csv'
  },
})

await withDatabase(async (url) => {
  const holdfast = await Holdfast.open({ url, namespace: 'examples' })
  const { jobs } = holdfast

  const late = await jobs.enqueue(offer, { to: 'ada', campaign: 'flash', text: '-50 %' }, { startBy: '10m' })
  const draft = await jobs.enqueue(offer, { to: 'bob', campaign: 'spring', text: 'spring sale' }, { delay: '2h' })
  await jobs.enqueueMany(
    offer,
    ['cy', 'dee', 'eve'].map((to) => ({ to, campaign: 'withdrawn', text: 'oops' })),
  )

  const found = await jobs.list({ queue: 'offers', search: 'input.campaign:withdrawn' })
  console.log(`jobs of the withdrawn campaign: ${found.jobs.length}`)
  console.log(`cancelled: ${await jobs.cancelMany({ queue: 'offers', search: 'input.campaign:withdrawn' })}`)

  // No worker has had a free slot for ten minutes. The offer is no longer sent.
  await passTime(holdfast, '11m')
  const changed = { to: 'bob', campaign: 'spring', text: 'spring sale, free delivery' }
  console.log(`changed: ${await jobs.update(draft.id, { definition: offer, input: changed, delay: 0 })}`)

  jobs.work([offer, exportOrders])
  await jobs.result(draft)
  console.log('sent:', sent)
  console.log(`the flash offer: ${(await jobs.find(late.id))!.state}`)

  // Only this job may take five minutes, and fails at the second error.
  const year = await jobs.enqueue(exportOrders, { year: 2030 }, { timeout: '5m', retry: { attempts: 2 } })
  let last: unknown
  for await (const { state, progress, failed } of jobs.watch(year)) last = { state, progress, failed }
  console.log('the export:', last)

  const [, offers] = await jobs.queues()
  console.log(
    `queue ${offers!.name}: ${offers!.ready} ready, ${offers!.cancelled} cancelled, ${offers!.expired} expired`,
  )
  await holdfast.close()
})

// prints:
// jobs of the withdrawn campaign: 3
// cancelled: 3
// changed: true
// sent: [ 'bob: spring sale, free delivery' ]
// the flash offer: expired
// the export: {
//   state: 'done',
//   progress: { done: 400, total: 400, file: 'orders.csv' },
//   failed: 1
// }
// queue offers: 0 ready, 3 cancelled, 1 expired
