// A workflow fetches three pages. When all pages are fetched, it makes an index. Finally, it sends a notification, even
// if a job failed. One call enqueues either all of the workflow's jobs or none of them. The second workflow contains a
// page that cannot be fetched.
import { defineJob, Holdfast, NonRetryableError } from 'holdfast'
import { withDatabase } from './database.ts'

interface Page {
  page: string
  words: number
}

const fetchPage = defineJob('fetch-page', {
  run: async ({ page }: { page: string }) => {
    if (page === 'missing') throw new NonRetryableError('there is no such page')
    return { page, words: page.length }
  },
})
const sizeOf = ({ page, words }: Page) => `${page}: ${words}`
const makeIndex = defineJob('make-index', {
  run: async (_, job) => (await job.parents()).map(({ result }) => sizeOf(result as Page)),
})
const notify = defineJob('notify', {
  run: async (_, job) => (await job.parents()).map(({ kind, state }) => `${kind} is ${state}`),
})

await withDatabase(async (url) => {
  const holdfast = await Holdfast.open({ url, namespace: 'examples' })
  holdfast.jobs.work([fetchPage, makeIndex, notify])
  for (const last of ['contact', 'missing']) {
    const { id, jobs } = await holdfast.jobs.enqueueWorkflow((workflow) => {
      const pages = ['home', 'about', last].map((page) => workflow.add(fetchPage, { page }))
      const index = workflow.add(makeIndex, null, { after: pages })
      workflow.add(notify, null, { after: [index], ifFailed: 'run' })
    })
    const [index, notified] = jobs.slice(-2)
    console.log('notified:', await holdfast.jobs.result(notified!.id))
    const found = await holdfast.jobs.find(index!.id)
    console.log('index:', found?.result ?? found?.state)
    const workflow = await holdfast.jobs.workflow(id)
    console.log({ isOver: workflow?.isOver, done: workflow?.counts.done })
  }
  await holdfast.close()
})

// prints:
// notified: [ 'make-index is done' ]
// index: [ 'home: 4', 'about: 5', 'contact: 7' ]
// { isOver: true, done: 5 }
// notified: [ 'make-index is cancelled' ]
// index: cancelled
// { isOver: true, done: 3 }
