// Runs one of a contestant's worker processes. The worker starts when the process receives a message. The process
// reports its number of finished jobs, its CPU time, and how long the jobs waited.
import { setTimeout as sleep } from 'node:timers/promises'
import { ownCpuMs } from '../cpu.ts'
import { openQueue } from './contestants.ts'

const { name, addresses, handlerMs, concurrency, hasLanes } = JSON.parse(process.argv[2]!)
const queue = await openQueue(name, addresses)
let count = 0
let waitsMs: number[] = []

function report() {
  process.send?.({ count, cpuMs: ownCpuMs(), waitsMs })
  waitsMs = []
}

process.once('message', async () => {
  await queue.work(
    async ({ isEndless, isHot, sentAt }) => {
      if (sentAt) waitsMs.push(Date.now() - sentAt)
      if (isEndless) await new Promise(() => {})
      if (handlerMs > 0) await sleep(handlerMs)
      if (!isHot) count++
    },
    concurrency,
    hasLanes,
  )
})
setInterval(report, 20)
process.send?.('ready')
