import { createRequire } from 'node:module'
import type { Context, Exception, Link, Meter, Tracer as OtelTracer, Span } from '@opentelemetry/api'
import {
  isError,
  isThenable,
  objectWith,
  readOptions,
  type SpanName,
  type Spans,
  type Tracer,
  toRecordedError,
  UsageError,
} from '../base/index.js'
import { type Holdfast, version } from '../index.js'
import { buckets } from './buckets.js'
import { errorTypeOf, type InstrumentName, instruments, type Measure } from './instruments.js'
import { measureEvents } from './measure-events.js'
import { type SpanDefinition, spanDefinitions } from './spans.js'

export interface InstrumentOptions {
  /** Makes the spans. Default: that of the global tracer provider of `@opentelemetry/api`. */
  tracer?: OtelTracer | undefined
  /** Takes the metrics. Default: that of the global meter provider. */
  meter?: Meter | undefined
}

const rules = {
  tracer: objectWith<OtelTracer>('a tracer of OpenTelemetry', 'startSpan'),
  meter: objectWith<Meter>('a meter of OpenTelemetry', 'createCounter', 'createHistogram'),
}

type Api = typeof import('@opentelemetry/api')

const instrumented = new WeakSet<Holdfast>()

/**
 * Shows an instance to OpenTelemetry: spans around what takes a while, with the trace carried from who enqueues a job to who
 * runs it, and the metrics of this instance. Needs `@opentelemetry/api` to be installed; the SDK is yours, set up before.
 * Returns how to end it.
 *
 * @example
 * import { instrument } from 'holdfast/telemetry'
 * const holdfast = await Holdfast.open({ url: process.env.DATABASE_URL })
 * instrument(holdfast)
 */
export function instrument(holdfast: Holdfast, options?: InstrumentOptions): () => void {
  const given = readOptions('instrument', options, rules)
  if (instrumented.has(holdfast)) throw new UsageError('This instance is instrumented already')
  const api = openTelemetry()
  const { tracer = api.trace.getTracer('holdfast', version), meter = api.metrics.getMeter('holdfast', version) } = given
  const { events, tracing } = holdfast.context
  const stop = measureEvents(events, measureWith(meter))
  tracing.tracer = new OtelTracing(api, tracer)
  instrumented.add(holdfast)
  return () => {
    stop()
    tracing.tracer = undefined
    instrumented.delete(holdfast)
  }
}

function openTelemetry(): Api {
  try {
    // Loaded when it is asked for, so that the rest of telemetry works without it.
    return createRequire(import.meta.url)('@opentelemetry/api')
  } catch (error) {
    throw new UsageError(
      '@opentelemetry/api cannot be loaded, which instrument needs',
      `Install it beside holdfast: npm install @opentelemetry/api (${(error as Error).message})`,
    )
  }
}

function measureWith(meter: Meter): Measure {
  const measures = new Map<InstrumentName, ReturnType<typeof one>>()
  const one = (name: InstrumentName) => {
    const { kind, unit, description } = instruments[name]
    if (kind === 'counter') {
      const counter = meter.createCounter(name, { unit, description })
      return counter.add.bind(counter)
    }
    const histogram = meter.createHistogram(name, { unit, description, advice: { explicitBucketBoundaries: buckets } })
    return histogram.record.bind(histogram)
  }
  for (const name of Object.keys(instruments) as InstrumentName[]) measures.set(name, one(name))
  return (name, value, attributes) => measures.get(name)!(value, attributes)
}

/** Makes spans of what rooms do. */
class OtelTracing implements Tracer {
  readonly #api: Api
  readonly #tracer: OtelTracer

  constructor(api: Api, tracer: OtelTracer) {
    this.#api = api
    this.#tracer = tracer
  }

  /** A span that ends with the work, and is present while it runs. */
  withSpan<Name extends SpanName, T>(name: Name, facts: Spans[Name], work: () => T): T {
    const { context, trace, ROOT_CONTEXT } = this.#api
    const parent = spanDefinitions[name].isRoot ? ROOT_CONTEXT : context.active()
    const span = this.#begin(name, facts, parent)
    try {
      const answer = context.with(trace.setSpan(parent, span), work)
      if (!isThenable(answer)) {
        span.end()
        return answer
      }
      return this.#endAfter(span, answer) as T
    } catch (error) {
      this.#fail(span, error)
      throw error
    }
  }

  /** As W3C writes it; undefined where there is no span. */
  traceparent(): string | undefined {
    const { context, trace, isSpanContextValid } = this.#api
    const present = trace.getSpanContext(context.active())
    if (!present || !isSpanContextValid(present)) return undefined
    const flags = present.traceFlags.toString(16).padStart(2, '0')
    return `00-${present.traceId}-${present.spanId}-${flags}`
  }

  #begin<Name extends SpanName>(name: Name, facts: Spans[Name], parent: Context): Span {
    const { SpanKind } = this.#api
    const form: SpanDefinition<Name> = spanDefinitions[name]
    const kind = { internal: SpanKind.INTERNAL, producer: SpanKind.PRODUCER, consumer: SpanKind.CONSUMER }[form.kind]
    const links = 'traces' in facts ? facts.traces.flatMap(linksTo) : []
    return this.#tracer.startSpan(form.name(facts), { kind, attributes: form.describe(facts), links }, parent)
  }

  async #endAfter(span: Span, answer: PromiseLike<unknown>): Promise<unknown> {
    try {
      const value = await answer
      span.end()
      return value
    } catch (error) {
      this.#fail(span, error)
      throw error
    }
  }

  #fail(span: Span, error: unknown): void {
    // A copy, because the SDK reads what it is given.
    const copy = toRecordedError(error)
    span.setAttribute('error.type', errorTypeOf(error))
    span.recordException(isError(error) ? (copy as Exception) : copy.message)
    span.setStatus({ code: this.#api.SpanStatusCode.ERROR, message: copy.message })
    span.end()
  }
}

/** Where a job was enqueued; nothing for what is no trace. */
function linksTo(traceparent: string): Link[] {
  const [, traceId, spanId, flags] = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/.exec(traceparent) ?? []
  if (!traceId || !spanId || !flags) return []
  return [{ context: { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true } }]
}
