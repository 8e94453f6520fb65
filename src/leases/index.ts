export * from './errors.js'
export { Lease } from './lease.js'
export { type LeaseOptions, Leases } from './leases.js'
