import { createRequire } from 'node:module'
import type { Context, Exception, Link, Meter, Tracer as OtelTracer, Span } from '@opentelemetry/api'
import {
  isError,
  isInstance,
  isThenable,
  objectWith,
  readOptions,
  type SpanName,
  type Spans,
  type Tracer,
  toRecordedError,
  UsageError,
} from '../base/index.js'
import { type Holdfast, JobSuspendedError, version } from '../index.js'
import { buckets } from './buckets.js'
import { errorTypeOf, type InstrumentName, instruments, type Measure } from './instruments.js'
import { measureEvents } from './measure-events.js'
import { type SpanDefinition, spanDefinitions } from './spans.js'

export interface InstrumentOptions {
  /** Tracer that creates the spans. Default: a tracer from `@opentelemetry/api`'s global provider. */
  tracer?: TracerLike | undefined
  /** Meter that records the metrics. Default: a meter from the global provider. */
  meter?: MeterLike | undefined
}

/** An OpenTelemetry tracer. Declared here, so that users of the other functions need not install OpenTelemetry. */
export interface TracerLike {
  readonly startSpan: (name: string) => object
}

/** An OpenTelemetry meter. Declared here, so that users of the other functions need not install OpenTelemetry. */
export interface MeterLike {
  readonly createCounter: (name: string) => object
  readonly createHistogram: (name: string) => object
}

const rules = {
  tracer: objectWith<OtelTracer>('an OpenTelemetry tracer', 'startSpan'),
  meter: objectWith<Meter>('an OpenTelemetry meter', 'createCounter', 'createHistogram'),
}

type Api = typeof import('@opentelemetry/api')

const instrumented = new WeakSet<Holdfast>()

/**
 * Exports an instance's spans and metrics to OpenTelemetry. A job's span links to the span that enqueued the job.
 * Requires `@opentelemetry/api`. Set up your OpenTelemetry SDK first. Returns a function that stops the export.
 *
 * @example
 * import { instrument } from 'holdfast/telemetry'
 * const holdfast = await Holdfast.open({ url: process.env.DATABASE_URL })
 * instrument(holdfast)
 */
export function instrument(holdfast: Holdfast, options?: InstrumentOptions): () => void {
  const given = readOptions('instrument', options, rules)
  if (instrumented.has(holdfast)) throw new UsageError('This instance is already instrumented')
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
    // Loaded lazily, so that the rest of the telemetry module works without `@opentelemetry/api`.
    return createRequire(import.meta.url)('@opentelemetry/api')
  } catch (error) {
    throw new UsageError(
      'instrument requires @opentelemetry/api, which could not be loaded',
      `Install the package next to holdfast: npm install @opentelemetry/api (${(error as Error).message})`,
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

class OtelTracing implements Tracer {
  readonly #api: Api
  readonly #tracer: OtelTracer

  constructor(api: Api, tracer: OtelTracer) {
    this.#api = api
    this.#tracer = tracer
  }

  /** Runs `work` inside a span. The span is active while `work` runs. */
  withSpan<Name extends SpanName, T>(name: Name, facts: Spans[Name], work: () => T): T {
    const { context, trace, ROOT_CONTEXT } = this.#api
    const parent = spanDefinitions[name].isRoot ? ROOT_CONTEXT : context.active()
    const span = this.#begin(name, facts, parent)
    try {
      const result = context.with(trace.setSpan(parent, span), work)
      if (!isThenable(result)) {
        span.end()
        return result
      }
      return this.#endAfter(span, result) as T
    } catch (error) {
      this.#fail(span, error)
      throw error
    }
  }

  /** Returns the active span in the W3C format, or undefined if there is none. */
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

  async #endAfter(span: Span, result: PromiseLike<unknown>): Promise<unknown> {
    try {
      const value = await result
      span.end()
      return value
    } catch (error) {
      this.#fail(span, error)
      throw error
    }
  }

  #fail(span: Span, error: unknown): void {
    // A job that sleeps or waits for an event has not failed.
    if (isInstance(error, JobSuspendedError)) {
      span.end()
      return
    }
    // The OpenTelemetry SDK reads properties of the error, and reading a property of the original error may throw.
    const copy = toRecordedError(error)
    span.setAttribute('error.type', errorTypeOf(error))
    span.recordException(isError(error) ? (copy as Exception) : copy.message)
    span.setStatus({ code: this.#api.SpanStatusCode.ERROR, message: copy.message })
    span.end()
  }
}

/** Returns a link to the span that enqueued the job, or nothing if the text is not a valid `traceparent`. */
function linksTo(traceparent: string): Link[] {
  const [, traceId, spanId, flags] = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/.exec(traceparent) ?? []
  if (!traceId || !spanId || !flags) return []
  return [{ context: { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true } }]
}
