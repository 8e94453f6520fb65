// A batch handler indexes up to ten documents per call, because the search engine accepts lists. The engine rejects one
// document. Only this document's job fails and runs again. The other jobs in the batch are done.
import { type BatchJob, defineJob, Holdfast } from 'holdfast'
import { withDatabase } from './database.ts'

const sizes: number[] = []
const index = defineJob('index-documents', {
  batch: { size: 10, wait: '50ms' },
  retry: { attempts: 2, backoff: '10ms' },
  run: async (jobs: readonly BatchJob<{ document: number }>[]) => {
    sizes.push(jobs.length)
    return jobs.map(({ input, attempt }) =>
      input.document === 13 && attempt === 1 ? new Error('the engine is busy') : { version: attempt },
    )
  },
})

await withDatabase(async (url) => {
  const holdfast = await Holdfast.open({ url, namespace: 'examples' })
  const documents = Array.from({ length: 40 }, (_, document) => ({ document }))
  const jobs = await holdfast.jobs.enqueueMany(index, documents)
  holdfast.jobs.work([index])
  const versions = await Promise.all(jobs.map((job) => holdfast.jobs.result(job)))
  console.log(`largest batch: ${Math.max(...sizes)}`)
  console.log(`done in the first attempt: ${versions.filter((result) => result.version === 1).length}`)
  console.log(`document 13 was done in attempt ${versions[13]?.version}`)
  await holdfast.close()
})

// prints:
// largest batch: 10
// done in the first attempt: 39
// document 13 was done in attempt 2
