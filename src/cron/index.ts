export * from './rule.js'
export { type ClockChange, clockChanges } from './zone.js'
