export type { Endpoint } from './endpoint.js'
export { healthHandler } from './health.js'
export { type InstrumentOptions, instrument } from './instrument.js'
export { metricsHandler, metricsText } from './metrics.js'
