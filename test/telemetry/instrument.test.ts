import { runInNewContext } from 'node:vm'
// Tests the spans, the trace context of jobs, and the metrics that OpenTelemetry receives.
import { context, SpanKind, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { defineJob, UsageError } from '../../src/index.js'
import { instrument } from '../../src/telemetry/index.js'
import { instruments } from '../../src/telemetry/instruments.js'
import { spanDefinitions } from '../../src/telemetry/spans.js'
import { work } from '../jobs/fixture.js'
import { caught, sql, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'

const exporter = new InMemorySpanExporter()
const tracer = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }).getTracer('test')

beforeAll(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
})
afterAll(() => context.disable())

test('a trace leads from the request that enqueues a job through the job to the spans of its handler', async () => {
  const holdfast = await open({ url: await databaseUrl() })
  instrument(holdfast, { tracer })
  const invoice = defineJob('send-invoice', {
    queue: 'invoices',
    run: (_: number) => tracer.startActiveSpan('send mail', (span) => span.end()),
  })
  await tracer.startActiveSpan('POST /orders', async (request) => {
    await holdfast.jobs.enqueue(invoice, 7)
    request.end()
  })
  work(holdfast, [invoice])
  const span = (name: string) =>
    until(`a span ${name}`, () => exporter.getFinishedSpans().find((found) => found.name === name))
  const process = await span('process invoices')
  const [request, send, mail] = [await span('POST /orders'), await span('send invoices'), await span('send mail')]

  // One trace: the request and the send span.
  expect(send.parentSpanContext?.spanId).toBe(request.spanContext().spanId)
  expect(send.spanContext().traceId).toBe(request.spanContext().traceId)
  // The link leads to that trace. The handler's spans belong to the trace of the process span.
  expect(process.links.map(({ context }) => [context.traceId, context.spanId])).toEqual([
    [request.spanContext().traceId, send.spanContext().spanId],
  ])
  expect(mail.parentSpanContext?.spanId).toBe(process.spanContext().spanId)
  expect(mail.spanContext().traceId).toBe(process.spanContext().traceId)

  // The names, kinds and attributes of the conventions for messaging, version 1.44.0.
  const attributes = (operation: string) => ({
    'messaging.system': 'holdfast',
    'messaging.operation.name': operation,
    'messaging.operation.type': operation,
    'messaging.destination.name': 'invoices',
    'holdfast.job.kind': 'send-invoice',
  })
  expect([send.kind, send.attributes]).toEqual([SpanKind.PRODUCER, attributes('send')])
  expect([process.kind, process.attributes]).toEqual([
    SpanKind.CONSUMER,
    { ...attributes('process'), 'messaging.message.id': expect.stringMatching(/^\d+$/), 'holdfast.attempt': 1 },
  ])
})

test('instrument records spans, links jobs to the span that enqueued them, and records metrics', {
  timeout: 60_000,
}, async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const metricExporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
  const reader = new PeriodicExportingMetricReader({
    exporter: metricExporter,
    exportIntervalMillis: 1_000_000,
    exportTimeoutMillis: 1_000,
  })
  const meter = new MeterProvider({ readers: [reader] }).getMeter('test')
  const stop = instrument(holdfast, { tracer, meter })
  expect((await caught(UsageError, () => instrument(holdfast))).message).toBe('This instance is already instrumented')
  const spans = (name: string) => exporter.getFinishedSpans().filter((span) => span.name === name)
  const span = (name: string) => until(`a span ${name}`, () => spans(name)[0])

  // The caller's span is the parent of the wait and of the hold. Inside the handler, the hold is the active span.
  const activeSpans: Record<string, string | undefined> = {}
  const recordActiveSpan = (what: string) => {
    activeSpans[what] = trace.getActiveSpan()?.spanContext().spanId
  }
  await tracer.startActiveSpan('caller', async (caller) => {
    await holdfast.locks.with('report', () => recordActiveSpan('lock'))
    await holdfast.leases.with('etl', () => recordActiveSpan('lease'))
    await holdfast.limits.with('gpu', { max: 1 }, () => recordActiveSpan('limit'))
    await holdfast.once.run('key', () => recordActiveSpan('once'))
    caller.end()
  })
  const caller = await span('caller')
  for (const [name, what] of [
    ['lock', 'report'],
    ['lease', 'etl'],
    ['limit', 'gpu'],
  ] as const) {
    const [wait, hold] = [await span(`${name} wait`), await span(`${name} hold`)]
    expect([wait, hold].map(({ parentSpanContext }) => parentSpanContext?.spanId)).toEqual(
      [caller, caller].map((above) => above.spanContext().spanId),
    )
    expect(activeSpans[name]).toBe(hold.spanContext().spanId)
    expect(Object.values(hold.attributes).flat()).toContain(what)
  }
  expect((await span('once run')).attributes).toMatchObject({
    'holdfast.once.key': 'key',
    'holdfast.fence': expect.any(Number),
  })
  await caught(
    RangeError,
    holdfast.locks.with('report', () => Promise.reject(new RangeError('too far'))),
  )
  expect(spans('lock hold')[1]).toMatchObject({
    status: { code: 2, message: 'too far' },
    attributes: { 'error.type': 'RangeError' },
  })

  // Single, bulk, delayed, dependent, unique and batched jobs: each has a link to the span that enqueued it.
  const child = defineJob('mail child', { queue: 'post', run: (_: string) => {} })
  const mail = defineJob('mail', {
    queue: 'post',
    retry: { attempts: 1 },
    run: (input: string, job) => {
      // A promise of another realm is not an instance of this realm's Promise.
      if (input === 'fails') return runInNewContext('(error) => Promise.reject(error)')(new TypeError('no mail'))
      if (input === 'a') return job.step('deliver', () => {})
      return input === 'parent' ? job.enqueue(child, 'child').then(() => {}) : undefined
    },
  })
  const bulk = defineJob<unknown>('bulk', { queue: 'bulk', batch: { size: 10, wait: '200ms' }, run: () => {} })
  const { jobs } = holdfast
  const one = await jobs.enqueue(mail, 'one')
  const ids = [
    one.id,
    ...(await jobs.enqueueMany(mail, ['a', 'b'])).map(({ id }) => id),
    (await jobs.enqueue(mail, 'later', { delay: 50 })).id,
    (await jobs.enqueue(mail, 'unique', { unique: 'u' })).id,
    (await jobs.enqueue(mail, 'unique later', { unique: 'v', delay: 50 })).id,
    (await jobs.enqueue(mail, 'lane', { lane: 'shop:1' })).id,
    (await jobs.enqueue(mail, 'after', { after: [one] })).id,
    ...(await jobs.enqueueWorkflow((workflow) => workflow.add(mail, 'in a workflow'))).jobs.map(({ id }) => id),
    (await jobs.enqueue(mail, 'parent')).id,
    (await jobs.enqueue(mail, 'fails')).id,
  ]
  await jobs.enqueueMany(bulk, [1, 2, 3])
  // The span that starts the worker is not the parent of the jobs.
  tracer.startActiveSpan('boot', () => work(holdfast, [mail, child, bulk]))
  const processed = await until('all jobs have run', () => {
    const all = spans('process post')
    return all.length === ids.length + 1 && spans('process bulk').length > 0 && all
  })
  const senders = new Map(
    exporter
      .getFinishedSpans()
      .filter(({ kind }) => kind === 3)
      .map((sent) => [sent.spanContext().spanId, sent]),
  )
  const senderOf = ({ links }: ReadableSpan) => links.map(({ context }) => senders.get(context.spanId)?.name)
  for (const attempt of processed) {
    expect(attempt.parentSpanContext).toBeUndefined()
    expect(senderOf(attempt), JSON.stringify(attempt.attributes)).toEqual(['send post'])
    expect(attempt).toMatchObject({
      kind: 4,
      attributes: { 'messaging.system': 'holdfast', 'messaging.destination.name': 'post' },
    })
  }
  expect(processed.map(({ attributes }) => Number(attributes['messaging.message.id'])).sort()).toEqual(
    expect.arrayContaining([...ids].sort()),
  )
  const failed = processed.filter(({ status }) => status.code === 2)
  expect(failed).toMatchObject([{ attributes: { 'error.type': 'TypeError' } }])
  // The child was enqueued by the attempt of its parent.
  const parent = processed.find((attempt) => Number(attempt.attributes['messaging.message.id']) === ids.at(-2))!
  const children = [...senders.values()].filter(
    (sent) => sent.parentSpanContext?.spanId === parent.spanContext().spanId,
  )
  expect(children).toHaveLength(1)
  const [step] = spans('job step')
  const stepped = processed.find((attempt) => attempt.spanContext().spanId === step!.parentSpanContext?.spanId)
  expect(step!.attributes).toEqual({
    'holdfast.job.step': 'deliver',
    'holdfast.job.kind': 'mail',
    'messaging.message.id': stepped!.attributes['messaging.message.id'],
    'holdfast.attempt': 1,
  })
  const batches = spans('process bulk')
  expect(batches.flatMap(({ links }) => links)).toHaveLength(3)

  // Leaders and schedules.
  await using campaign = holdfast.elections.campaign('indexer', () => {})
  expect((await span('election term indexer')).attributes).toMatchObject({ 'holdfast.election.name': campaign.name })
  await using schedule = holdfast.schedules.add('nightly', { every: '1s' }, () => {})
  expect((await span('schedule run nightly')).attributes).toMatchObject({ 'holdfast.schedule.name': schedule.name })

  // The spans have only attributes that the reference lists.
  const definitions = Object.values(spanDefinitions)
  for (const { name, attributes } of exporter.getFinishedSpans().filter((one) => one.name !== 'caller')) {
    const names = Object.keys(attributes).filter((attribute) => attribute !== 'error.type')
    const definition = definitions.find((one) =>
      names.every((attribute) => (one.attributes as readonly string[]).includes(attribute)),
    )
    expect(definition, name).toBeDefined()
  }
  await reader.forceFlush()
  const exported = metricExporter
    .getMetrics()
    .flatMap(({ scopeMetrics }) => scopeMetrics.flatMap(({ metrics }) => metrics))
  const pointsOf = (name: string) => exported.find(({ descriptor }) => descriptor.name === name)?.dataPoints ?? []
  for (const { descriptor, dataPoints } of exported) {
    const known = instruments[descriptor.name as keyof typeof instruments]
    expect(descriptor).toMatchObject({ unit: known.unit, description: known.description })
    for (const { attributes } of dataPoints)
      expect(known.attributes).toEqual(expect.arrayContaining(Object.keys(attributes)))
  }
  const sentMail = pointsOf('messaging.client.sent.messages').find(
    ({ attributes }) => attributes['holdfast.job.kind'] === 'mail',
  )
  expect(sentMail?.value).toBe(ids.length)
  expect(
    pointsOf('messaging.process.duration')
      .map(({ attributes }) => attributes['holdfast.outcome'])
      .sort(),
  ).toEqual(['buried', 'done', 'done', 'done'])
  expect(pointsOf('holdfast.lock.wait.duration').length).toBeGreaterThan(0)

  // After `stop`, no spans are recorded and jobs carry no trace context.
  stop()
  const before = exporter.getFinishedSpans().length
  await holdfast.locks.with('report', () => {})
  await holdfast.jobs.enqueue(defineJob('idle', { queue: 'no worker', run() {} }), null)
  expect(exporter.getFinishedSpans()).toHaveLength(before)
  expect(await sql(url, "select links from holdfast.job where kind = 'idle'")).toEqual([{ links: null }])
})
