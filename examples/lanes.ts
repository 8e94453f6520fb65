// Each shop's jobs must run one at a time, in the order in which they were enqueued. Each shop therefore has its own
// lane. Across the whole fleet, one of a lane's jobs runs at a time, while other lanes' jobs run in parallel.
import { defineJob, Holdfast } from 'holdfast'
import { withDatabase } from './database.ts'

type Shop = (typeof shops)[number]
const shops = ['books', 'music'] as const

await withDatabase(async (url) => {
  const running: Record<Shop, number> = { books: 0, music: 0 }
  const begun: Record<Shop, number[]> = { books: [], music: [] }
  const most = { books: 0, music: 0, together: 0 }

  const syncShop = defineJob('sync-shop', {
    lanes: { max: 1 },
    run: async ({ shop, part }: { shop: Shop; part: number }) => {
      begun[shop].push(part)
      running[shop]++
      most[shop] = Math.max(most[shop], running[shop])
      most.together = Math.max(most.together, running.books + running.music)
      await new Promise((resolve) => setTimeout(resolve, 20))
      running[shop]--
    },
  })

  const holdfast = await Holdfast.open({ url, namespace: 'examples' })
  const jobs = []
  for (const part of [1, 2, 3, 4, 5]) {
    for (const shop of shops) {
      jobs.push(await holdfast.jobs.enqueue(syncShop, { shop, part }, { lane: `shop:${shop}` }))
    }
  }
  holdfast.jobs.work([syncShop], { concurrency: 10 })
  for (const job of jobs) await holdfast.jobs.result(job)
  for (const shop of shops) {
    console.log(`${shop}: parts ${begun[shop].join(' ')}, at most ${most[shop]} at the same time`)
  }
  console.log(`both shops: at most ${most.together} at the same time`)
  await holdfast.close()
})

// prints:
// books: parts 1 2 3 4 5, at most 1 at the same time
// music: parts 1 2 3 4 5, at most 1 at the same time
// both shops: at most 2 at the same time
