import type { Holdfast } from '../index.js'
import { type FleetMetrics, fleetMetrics } from '../observe/index.js'
import { type Endpoint, endpoint } from './endpoint.js'
import { contentType, family, sample } from './exposition.js'
import { fleetGauges, type Gauge, instanceGauges } from './gauges.js'
import { measureEvents } from './measure-events.js'
import { MetricTotals } from './metric-totals.js'

/** However often somebody asks, the database is asked once in this time. */
const readEveryMs = 5_000
const readTimeoutMs = 3_000

/** What is kept for an instance that is asked for its metrics. */
class Collector {
  readonly #holdfast: Holdfast
  readonly #totals = new MetricTotals()
  #fleet: Promise<FleetMetrics | undefined> | undefined
  #readAt = Number.NEGATIVE_INFINITY

  constructor(holdfast: Holdfast) {
    this.#holdfast = holdfast
    measureEvents(holdfast.context.events, this.#totals.measure)
  }

  /** All that there is to say now. */
  async text(): Promise<string> {
    const [health, fleet] = await Promise.all([this.#holdfast.health(), this.#latestFleet()])
    // Where the database does not answer, nothing is known of the fleet: better no number than an old one.
    return this.#totals.text() + gaugesOf(instanceGauges, health) + (fleet ? gaugesOf(fleetGauges, fleet) : '')
  }

  #latestFleet(): Promise<FleetMetrics | undefined> {
    if (performance.now() - this.#readAt >= readEveryMs) {
      this.#readAt = performance.now()
      this.#fleet = this.#readFleet()
    }
    return this.#fleet!
  }

  #readFleet(): Promise<FleetMetrics | undefined> {
    const { namespace, context } = this.#holdfast
    const { database, schema } = context
    const reader = {
      read: <Row>(text: string, values?: readonly unknown[]) => database.read<Row>(text, values, readTimeoutMs),
    }
    return fleetMetrics(reader, namespace, schema).catch(() => undefined)
  }
}

const collectors = new WeakMap<Holdfast, Collector>()

function collectorOf(holdfast: Holdfast): Collector {
  let collector = collectors.get(holdfast)
  if (collector === undefined) {
    collector = new Collector(holdfast)
    collectors.set(holdfast, collector)
  }
  return collector
}

function gaugesOf<From>(gauges: Record<string, Gauge<From>>, from: From): string {
  return Object.entries(gauges)
    .map(([name, { description, read }]) => {
      const samples = read(from).flatMap(([value, labels = {}]) =>
        value === null ? [] : [sample(name, labels, value)],
      )
      return family(name, 'gauge', description, samples)
    })
    .join('')
}

/**
 * The metrics of an instance and of its fleet, as Prometheus reads them (text, version 0.0.4). The instance counts from the
 * first call on; the fleet's numbers come from the database, which is asked once in five seconds at most.
 *
 * @example
 * app.get('/metrics', async (_, reply) => reply.type('text/plain; version=0.0.4').send(await metricsText(holdfast)))
 */
export function metricsText(holdfast: Holdfast): Promise<string> {
  return collectorOf(holdfast).text()
}

/**
 * Answers Prometheus. A handler of the web standard, with a shape for Node.js beside it. Counts from now on.
 *
 * @example
 * const metrics = metricsHandler(holdfast)
 * app.get('/metrics', metrics.node)             // Express, node:http
 * app.get('/metrics', (c) => metrics(c.req.raw)) // Hono, and whatever speaks fetch
 */
export function metricsHandler(holdfast: Holdfast): Endpoint {
  const collector = collectorOf(holdfast)
  return endpoint(async () => ({ status: 200, type: contentType, body: await collector.text() }))
}
