import type { Holdfast } from '../index.js'
import { type Endpoint, endpoint } from './endpoint.js'

/**
 * Creates a handler for the health checks of an orchestrator.
 *
 * A path that ends with `/live` always returns 200, because a restart of the process would not fix any failure that Holdfast detects.
 * Every other path is a readiness check. It returns 200 also while the instance reconnects or a worker fails. It returns 503 if
 * the database is unreachable, and while the instance drains or closes. The response has no messages, because they may name
 * servers and users. `holdfast.health()` returns them.
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
