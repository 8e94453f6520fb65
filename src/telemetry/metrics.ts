import type { Holdfast } from '../index.js'
import { type FleetMetrics, fleetMetrics } from '../observe/index.js'
import { type Endpoint, endpoint } from './endpoint.js'
import { contentType, family, sample } from './exposition.js'
import { fleetGauges, type Gauge, instanceGauges } from './gauges.js'
import { measureEvents } from './measure-events.js'
import { MetricTotals } from './metric-totals.js'

/** Minimum time between two queries, regardless of the number of scrapes. */
const readEveryMs = 5_000
const readTimeoutMs = 3_000

/** Collects one instance's metrics. */
class Collector {
  readonly #holdfast: Holdfast
  readonly #totals = new MetricTotals()
  #fleet: Promise<FleetMetrics | undefined> | undefined
  #readAt = Number.NEGATIVE_INFINITY

  constructor(holdfast: Holdfast) {
    this.#holdfast = holdfast
    measureEvents(holdfast.context.events, this.#totals.measure)
  }

  /** Returns the current metrics as text. */
  async text(): Promise<string> {
    const [health, fleet] = await Promise.all([this.#holdfast.health(), this.#latestFleet()])
    // Without a response from the database, the fleet gauges are omitted, because a missing value is better than a
    // stale value.
    const { campaigns } = this.#holdfast.elections
    const ofInstance = gaugesOf(instanceGauges, { health, campaigns })
    return this.#totals.text() + ofInstance + (fleet ? gaugesOf(fleetGauges, fleet) : '')
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
 * Returns an instance's and its fleet's metrics in the Prometheus text format, version 0.0.4. The instance's counters
 * start at zero at the first call. The fleet's numbers come from the database, with at most one read every 5 seconds.
 *
 * @example
 * app.get('/metrics', async (_, reply) => reply.type('text/plain; version=0.0.4').send(await metricsText(holdfast)))
 */
export function metricsText(holdfast: Holdfast): Promise<string> {
  return collectorOf(holdfast).text()
}

/**
 * Creates a handler for Prometheus scrapes, for the Fetch API and for Node.js. The counters start at zero at this call.
 *
 * @example
 * const metrics = metricsHandler(holdfast)
 * app.get('/metrics', metrics.node)             // Express, node:http
 * app.get('/metrics', (c) => metrics(c.req.raw)) // Hono and other frameworks with the Fetch API
 */
export function metricsHandler(holdfast: Holdfast): Endpoint {
  const collector = collectorOf(holdfast)
  return endpoint(async () => ({ status: 200, type: contentType, body: await collector.text() }))
}
