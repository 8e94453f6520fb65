// Compares leases with a handwritten row.
import { byHand, type Kind, kinds, type Callers as LeaseCallers } from './leases/callers.ts'
import { pairs, showPairs } from './leases/pairs.ts'
import { renewals, showRenewals } from './leases/renewals.ts'
import type { Options } from './measure.ts'
import { type Callers, oneCaller, showOneCaller } from './one-caller.ts'
import { query } from './server.ts'

const single = ({ once, close }: LeaseCallers) => ({ once: () => once(0), close })

const callers = Object.fromEntries(
  (Object.keys(kinds) as Kind[]).map((kind) => [
    kind,
    async (url: string) => {
      await query(url, byHand.table)
      return single(await kinds[kind](url, 'alone'))
    },
  ]),
) satisfies Callers

export async function run(url: string, options: Options) {
  return {
    oneCaller: await oneCaller(url, 'leases', callers, options),
    pairs: await pairs(url, options),
    renewals: await renewals(url, options),
  }
}

export function show(report: Awaited<ReturnType<typeof run>>) {
  return [
    showOneCaller('One lease: acquire + release', report.oneCaller, 0.7),
    showPairs(report.pairs),
    showRenewals(report.renewals),
  ].join('\n\n')
}
