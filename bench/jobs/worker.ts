// A worker process of a contestant. It begins when it is told to, and says from time to time how many jobs it has run, and what
// that cost it.
import { setTimeout as sleep } from 'node:timers/promises'
import { openQueue } from './contestants.ts'

const { name, at, handlerMs, concurrency, hasLanes } = JSON.parse(process.argv[2]!)
const queue = await openQueue(name, at)
let count = 0

function tell() {
  const { user, system } = process.cpuUsage()
  process.send?.({ count, cpuMs: (user + system) / 1_000 })
}

process.once('message', async () => {
  await queue.work(
    async ({ isEndless, isHot }) => {
      if (isEndless) await new Promise(() => {})
      if (handlerMs > 0) await sleep(handlerMs)
      if (!isHot) count++
    },
    concurrency,
    hasLanes,
  )
})
setInterval(tell, 20)
process.send?.('ready')
