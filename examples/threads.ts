// Handlers in worker threads. A computation does not block the worker, which runs other jobs in the meantime. A thread with an endless loop is terminated
// after its time limit. A thread that crashes fails one attempt, and the process continues.
import { defineJob, Holdfast } from 'holdfast'
import { jobEnded } from 'holdfast/testing'
import { withDatabase } from './database.ts'

const module = new URL('./threads/handlers.ts', import.meta.url)
const retry = { attempts: 1 }
export const hash = defineJob<{ password: string }, string>('hash', {
  threads: { module, export: 'hashPassword', max: 2 },
})
export const loop = defineJob('loop', { threads: { module, export: 'loopForever' }, timeout: '100ms', retry })
export const crash = defineJob('crash', { threads: { module, export: 'exit' }, retry })
const beat = defineJob('beat', { run: () => {} })

await withDatabase(async (url) => {
  const holdfast = await Holdfast.open({ url, log: false })
  const worker = holdfast.jobs.work([hash, loop, crash, beat])

  const looping = await holdfast.jobs.enqueue(loop)
  const hashing = await holdfast.jobs.enqueue(hash, { password: 'secret' })
  await holdfast.jobs.result(await holdfast.jobs.enqueue(beat))
  console.log(`beat: done, while loop is ${(await holdfast.jobs.find(looping.id))!.state}`)
  console.log(`hash: ${await holdfast.jobs.result(hashing)}`)
  const crashed = await jobEnded(holdfast, (await holdfast.jobs.enqueue(crash)).id)
  console.log(`crash: ${crashed.state}: ${crashed.error?.message}`)
  const looped = await jobEnded(holdfast, looping.id)
  console.log(`loop: ${looped.state}: ${looped.error?.message}`)
  await worker.close()
  await holdfast.close()
})

// prints:
// beat: done, while loop is running
// hash: 4dfe52ec13226f5a1cc65af2d824dc04
// crash: buried: The thread of "crash" ended with exit code 1
// loop: buried: The attempt exceeded its timeout of 100ms
