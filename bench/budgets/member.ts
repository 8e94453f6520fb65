// One process with four workers, each in its own instance. Reports the number of finished jobs and the start times of marked jobs.
import { setTimeout as sleep } from 'node:timers/promises'
import { defineJob, Holdfast } from 'holdfast'

const [url, handlerMs, concurrency] = process.argv.slice(2)
const pauseMs = Number(handlerMs)
let count = 0
let startedAt: number | undefined

const job = defineJob('work', {
  run: async ({ isMarked }: { isMarked?: boolean }) => {
    if (isMarked) startedAt = Date.now()
    if (pauseMs > 0) await sleep(pauseMs)
    count++
  },
})
const holdfasts = await Promise.all(Array.from({ length: 4 }, () => Holdfast.open({ url: url! })))
setInterval(() => {
  process.send!({ count, startedAt })
  startedAt = undefined
}, 10)
process.once('message', () => {
  for (const { jobs } of holdfasts) jobs.work([job], { concurrency: Number(concurrency) })
})
process.send!({ count })
