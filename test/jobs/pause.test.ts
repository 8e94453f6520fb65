import { expect, test } from 'vitest'
import { defineJob } from '../../src/index.js'
import { until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { work } from './fixture.js'

test.each(['asleep', 'awake'])(
  'a queue that another instance resumes continues immediately without an anchor, with a worker that is %s',
  async (how) => {
    const url = await databaseUrl()
    const holdfast = await open({ url, anchor: 'none' })
    const elsewhere = await open({ url, anchor: 'none' })
    const ran: number[] = []
    const note = defineJob('note', { queue: 'paused', run: (n: number) => void ran.push(n) })
    const other = defineJob<unknown>('other', { queue: 'open', run: () => {} })
    const runOthers = async (ms: number, isEnough = () => false) => {
      for (const over = performance.now() + ms; performance.now() < over && !isEnough(); ) {
        const refs = await holdfast.jobs.enqueueMany(other, [1, 2, 3])
        await holdfast.jobs.result(refs[2]!.id)
      }
    }
    work(holdfast, [note, other])
    await runOthers(500)
    await elsewhere.jobs.pause('paused')
    await elsewhere.jobs.enqueueMany(note, [1, 2, 3])
    // Every kind of claim skips these jobs.
    await runOthers(2_500)
    await elsewhere.jobs.enqueue(note, 4)
    if (how === 'awake') await runOthers(300)
    expect(ran).toEqual([])
    await elsewhere.jobs.resume('paused')
    if (how === 'awake') await runOthers(10_000, () => ran.length === 4)
    // A worker that misses the change would check the queue again only after 30 seconds.
    await until('all jobs have run', () => ran.length === 4)
  },
)
