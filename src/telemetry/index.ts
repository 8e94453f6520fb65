export type { Endpoint } from './endpoint.js'
export { healthHandler } from './health.js'
export { type InstrumentOptions, instrument, type MeterLike, type TracerLike } from './instrument.js'
export { metricsHandler, metricsText } from './metrics.js'
