// Limits against the counters that people write by hand.
import { beside, showBeside } from './limits/beside.ts'
import { permits, showPermits } from './limits/permits.ts'
import { rates, showRates } from './limits/rates.ts'

import type { Options } from './measure.ts'

export async function run(url: string, options: Options) {
  return {
    permits: await permits(url, options),
    rates: await rates(url, options),
    beside: await beside(url, options),
  }
}

export function show(report: Awaited<ReturnType<typeof run>>) {
  return [showPermits(report.permits), showRates(report.rates), showBeside(report.beside)].join('\n\n')
}
