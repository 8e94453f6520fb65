// Jobs of two kinds call the same provider, which accepts two calls at the same time. One customer has many jobs. The
// groups take turns, so that the other customer does not wait for all of them.
import { defineBudget, defineJob, Holdfast } from 'holdfast'
import { withDatabase } from './database.ts'

const provider = defineBudget('provider', { max: 2 })

await withDatabase(async (url) => {
  const order: string[] = []
  let [running, most] = [0, 0]
  async function call({ customer, weight = 1 }: { customer: string; weight?: number }) {
    order.push(customer)
    running += weight
    most = Math.max(most, running)
    await new Promise((resolve) => setTimeout(resolve, 20))
    running -= weight
  }
  const summarize = defineJob('summarize', { queue: 'text', budgets: [provider], run: call })
  const draw = defineJob('draw', { queue: 'images', budgets: [{ budget: provider, weight: 2 }], run: call })

  const holdfast = await Holdfast.open({ url, namespace: 'examples' })
  const jobs = []
  jobs.push(...(await holdfast.jobs.enqueueMany(summarize, new Array(20).fill({ customer: 'big' }), { group: 'big' })))
  jobs.push(await holdfast.jobs.enqueue(summarize, { customer: 'small' }, { group: 'small' }))
  jobs.push(await holdfast.jobs.enqueue(draw, { customer: 'small', weight: 2 }, { group: 'small' }))
  holdfast.jobs.work([summarize, draw], { concurrency: 10 })
  for (const job of jobs) await holdfast.jobs.result(job)
  console.log(`at most ${most} of 2 places of the provider were in use`)
  console.log(`the small customer's first job was one of the first five: ${order.indexOf('small') < 5}`)
  console.log(
    `jobs of the small customer that ran before the last of the big one: ${order.filter((one, at) => one === 'small' && at < order.lastIndexOf('big')).length}`,
  )
  await holdfast.close()
})

// prints:
// at most 2 of 2 places of the provider were in use
// the small customer's first job was one of the first five: true
// jobs of the small customer that ran before the last of the big one: 2
