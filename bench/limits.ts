// Compares limits with handwritten counters.
import { isolation, showIsolation } from './limits/isolation.ts'
import { oneCaller, showOneCaller } from './limits/one-caller.ts'
import { permits, showPermits } from './limits/permits.ts'
import { rates, showRates } from './limits/rates.ts'

import type { Options } from './measure.ts'

export async function run(url: string, options: Options) {
  return {
    oneCaller: await oneCaller(url, options),
    permits: await permits(url, options),
    rates: await rates(url, options),
    isolation: await isolation(url, options),
  }
}

export function show(report: Awaited<ReturnType<typeof run>>) {
  return [
    showOneCaller(report.oneCaller),
    showPermits(report.permits),
    showRates(report.rates),
    showIsolation(report.isolation),
  ].join('\n\n')
}
