// Limits against the counters that people write by hand.
import { beside, showBeside } from './limits/beside.js'
import { permits, showPermits } from './limits/permits.js'
import { rates, showRates } from './limits/rates.js'

export async function run(url, options) {
  return {
    permits: await permits(url, options),
    rates: await rates(url, options),
    beside: await beside(url, options),
  }
}

export function show(report) {
  return [showPermits(report.permits), showRates(report.rates), showBeside(report.beside)].join('\n\n')
}
