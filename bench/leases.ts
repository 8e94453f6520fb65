// Compares leases with a handwritten row.
import { pairs, showPairs } from './leases/pairs.ts'
import { renewals, showRenewals } from './leases/renewals.ts'

import type { Options } from './measure.ts'

export async function run(url: string, options: Options) {
  return { pairs: await pairs(url, options), renewals: await renewals(url, options) }
}

export function show(report: Awaited<ReturnType<typeof run>>) {
  return [showPairs(report.pairs), showRenewals(report.renewals)].join('\n\n')
}
