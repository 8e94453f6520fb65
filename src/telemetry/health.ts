import type { Holdfast } from '../index.js'
import { type Endpoint, endpoint } from './endpoint.js'

/**
 * Answers the probes of an orchestrator. A path that ends with `/live` is always answered with 200: that it is answered is
 * what it asks for, and nothing that Holdfast can lose comes back sooner by killing the process. Every other path says
 * whether the instance is ready: 200 also while it reconnects or a worker fails, 503 when the database cannot be reached, and when
 * it drains or is closing, so that nobody sends it new work.
 * Messages, which may tell of servers and users, are left to `holdfast.health()`.
 *
 * @example
 * const health = healthHandler(holdfast)
 * app.get('/health/:probe', health.node) // livenessProbe: /health/live, readinessProbe: /health/ready
 */
export function healthHandler(holdfast: Holdfast): Endpoint {
  return endpoint(async (path) => {
    if (/\/live\/?$/.test(path)) return json(200, { status: 'alive' })
    const { status, reasons, instance, checkedAt } = await holdfast.health()
    const body = { status, reasons: [...new Set(reasons.map(({ code }) => code))], instance, checkedAt }
    const isReady = status !== 'down' && !body.reasons.includes('DRAINING')
    return json(isReady ? 200 : 503, body)
  })
}

function json(status: number, body: object) {
  return { status, type: 'application/json', body: `${JSON.stringify(body)}\n` }
}
