import type { Holdfast } from '../index.js'
import { type Endpoint, endpoint } from './endpoint.js'

/**
 * Creates a handler for an orchestrator's health checks.
 *
 * A path that ends with `/live` always returns 200, because restarting the process would not fix any failure that
 * Holdfast detects. Every other path is a readiness check. The readiness check also returns 200 while the instance is
 * reconnecting or a worker is failing. It returns 503 if the database is unreachable, or while the instance is draining
 * or closing. The response contains no messages, because messages may contain server and user names.
 * `holdfast.health()` returns them.
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
