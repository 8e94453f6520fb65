export * from './errors.js'
export {
  type ConsumeOptions,
  type LimitOptions,
  Limits,
  type LimitsOptions,
  type LimitUsage,
  type PermitUser,
  type RateOutcome,
} from './limits.js'
export type { Permit } from './permit.js'
export { intervalNsOf, type ParsedRate, type Rate, rateRule } from './rate.js'
