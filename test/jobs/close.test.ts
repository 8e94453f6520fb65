import { expect, test } from 'vitest'
import { defineJob, UsageError } from '../../src/holdfast.js'
import { caught, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'

test('close takes a duration, in words as well', async () => {
  const { jobs } = await open({ url: await databaseUrl() })
  const endless = defineJob('endless', {
    run: (_, { signal }) =>
      new Promise<void>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
  })
  const worker = jobs.work([endless])
  const { id } = await jobs.enqueue(endless, null)
  await until('it runs', () => worker.running === 1)
  expect((await caught(UsageError, () => worker.close('soon'))).message).toBe(
    'Expected the time to close in to be a duration, got "soon" (string)',
  )
  await worker.close('10ms')
  expect(await jobs.find(id)).toMatchObject({ state: 'ready', failed: 0 })
})
