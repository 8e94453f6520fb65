import type { Holdfast } from '../index.js'
import { type FleetMetrics, fleetMetrics } from '../observe/index.js'
import { type Endpoint, endpoint } from './endpoint.js'
import { contentType, family, sample } from './exposition.js'
import { fleetGauges, type Gauge, instanceGauges } from './gauges.js'
import { measureEvents } from './measuring.js'
import { Tallies } from './tallies.js'

/** However often somebody asks, the database is asked once in this time. */
const askEveryMs = 5_000
const answerWithinMs = 3_000

/** What is kept for an instance that is asked for its metrics. */
class Collector {
  readonly #holdfast: Holdfast
  readonly #tallies = new Tallies()
  #fleet: Promise<FleetMetrics | undefined> | undefined
  #askedAt = Number.NEGATIVE_INFINITY

  constructor(holdfast: Holdfast) {
    this.#holdfast = holdfast
    measureEvents(holdfast.ground.events, this.#tallies.measure)
  }

  /** All that there is to say now. */
  async text(): Promise<string> {
    const [health, fleet] = await Promise.all([this.#holdfast.health(), this.#latestFleet()])
    // Where the database does not answer, nothing is known of the fleet: better no number than an old one.
    return this.#tallies.text() + gaugesOf(instanceGauges, health) + (fleet ? gaugesOf(fleetGauges, fleet) : '')
  }

  #latestFleet(): Promise<FleetMetrics | undefined> {
    if (performance.now() - this.#askedAt >= askEveryMs) {
      this.#askedAt = performance.now()
      this.#fleet = this.#askFleet()
    }
    return this.#fleet!
  }

  #askFleet(): Promise<FleetMetrics | undefined> {
    const { namespace, ground } = this.#holdfast
    const { database, schema } = ground
    const patient = {
      read: <Row>(text: string, values?: readonly unknown[]) => database.read<Row>(text, values, answerWithinMs),
    }
    return fleetMetrics(patient, namespace, schema).catch(() => undefined)
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
