import { expect, test } from 'vitest'
import { defineJob, InvalidInputError, implement, ResultTimeoutError, UsageError } from '../../src/index.js'
import { caught } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { gate, work } from './fixture.js'

const resize = defineJob<{ image: string }, number>('resize', { queue: 'images', timeout: '5s' })

test('a worker runs the handler that implement adds to a definition', async () => {
  const holdfast = await open({ url: await databaseUrl() })
  const service = { resize: async (image: string, signal: AbortSignal) => (signal.aborted ? 0 : image.length) }
  const images = implement(resize, ({ image }, job) => service.resize(image, job.signal))
  expect(images).toMatchObject({ kind: 'resize', queue: 'images', timeoutMs: 5_000 })
  work(holdfast, [images])
  const fromDefinition = await holdfast.jobs.enqueue(resize, { image: 'a.png' })
  const fromImplementation = await holdfast.jobs.enqueue(images, { image: 'abc.png' })
  expect(await holdfast.jobs.result(fromDefinition)).toBe(5)
  expect(await holdfast.jobs.result(fromImplementation)).toBe(7)
})

test('implement with `batch` passes several jobs to one call', async () => {
  const holdfast = await open({ url: await databaseUrl() })
  const sizes: number[] = []
  const images = implement(resize, { batch: { size: 10, wait: '1s' } }, (jobs) => {
    sizes.push(jobs.length)
    return jobs.map(({ input }) => input.image.length)
  })
  const refs = await holdfast.jobs.enqueueMany(
    resize,
    Array.from({ length: 10 }, (_, at) => ({ image: `${at}.png` })),
  )
  work(holdfast, [images])
  expect(await Promise.all(refs.map((ref) => holdfast.jobs.result(ref)))).toEqual(new Array(10).fill(5))
  expect(sizes).toEqual([10])
})

test('the schema of a definition checks the input before the job is enqueued and before the handler of implement runs', async () => {
  const holdfast = await open({ url: await databaseUrl() })
  const day = defineJob('day', {
    input: {
      '~standard': {
        version: 1,
        vendor: 'test',
        validate: (value) =>
          Number.isNaN(Date.parse(String(value)))
            ? { issues: [{ message: 'no date' }] }
            : { value: new Date(String(value)) },
        types: undefined as { input: string; output: Date } | undefined,
      },
    },
  })
  await expect(holdfast.jobs.enqueue(day, 'soon')).rejects.toThrow(InvalidInputError)
  work(holdfast, [implement(day, (input) => input.getUTCFullYear())])
  expect(await holdfast.jobs.result(await holdfast.jobs.enqueue(day, '2030-01-31'))).toBe(2030)
})

test('a job without an input is enqueued without an input, and its handler receives null', async () => {
  const holdfast = await open({ url: await databaseUrl() })
  const inputs: unknown[] = []
  const cleanUp = defineJob('clean-up', { run: (input) => void inputs.push(input) })
  const twice = defineJob('twice', { run: async (_, job) => (await job.enqueue(cleanUp)).isNew })
  work(holdfast, [cleanUp, twice])
  expect(await holdfast.jobs.result(await holdfast.jobs.enqueue(cleanUp))).toBeUndefined()
  const { jobs } = await holdfast.jobs.enqueueWorkflow((workflow) => {
    workflow.add(twice, null, { after: [workflow.add(cleanUp)] })
  })
  expect(await holdfast.jobs.result(jobs[1]!)).toBe(true)
  await expect.poll(() => inputs).toEqual([null, null, null])
})

test('jobs.work refuses a definition without a handler', async () => {
  const { jobs } = await open({ url: await databaseUrl() })
  const other = defineJob('other', { run: () => {} })
  const error = await caught(UsageError, async () => jobs.work([other, resize as never]))
  expect(error.message).toBe('Expected jobs with a handler, got the definition of "resize" without a handler')
  expect(error.hint).toBe('Pass implement(definition, run), or add the `run` option to the definition.')
})

test('implement refuses arguments of the wrong type', async () => {
  const refused = async (message: string, call: () => unknown) =>
    expect((await caught(UsageError, async () => call())).message).toContain(message)
  await refused('Expected a definition made by defineJob, got "resize" (string)', () =>
    implement('resize' as never, () => {}),
  )
  await refused('Expected run to be a function, got undefined', () => implement(resize, undefined as never))
  await refused('Expected run to be a function, got undefined', () => defineJob('x', { batch: { size: 1 } } as never))
  await refused('implement has no option "queue"', () => implement(resize, { queue: 'x' } as never, () => []))
  await refused('Expected size to be a whole number between 1 and 1000', () =>
    implement(resize, { batch: { size: 0 } }, () => []),
  )
})

test('jobs.result throws a ResultTimeoutError if the job does not end within `wait`', async () => {
  const holdfast = await open({ url: await databaseUrl() })
  const ending = gate()
  const job = defineJob('slow', { run: () => ending.opened })
  work(holdfast, [job])
  const ref = await holdfast.jobs.enqueue(job)
  const error = await caught(ResultTimeoutError, holdfast.jobs.result(ref, { wait: 20 }))
  expect(error).toMatchObject({ code: 'RESULT_TIMEOUT', retryable: true, id: ref.id })
  expect(error.message).toBe(`Job ${ref.id} did not end within 20ms`)
  await caught(ResultTimeoutError, holdfast.jobs.result(ref.id, { wait: 0 }))
  ending.open()
  expect(await holdfast.jobs.result(ref)).toBeUndefined()
})
