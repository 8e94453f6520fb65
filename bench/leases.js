// Leases against the row that people write by hand.
import { pairs, showPairs } from './leases/pairs.js'
import { renewals, showRenewals } from './leases/renewals.js'

export async function run(url, options) {
  return { pairs: await pairs(url, options), renewals: await renewals(url, options) }
}

export function show(report) {
  return [showPairs(report.pairs), showRenewals(report.renewals)].join('\n\n')
}
