// Compares locks with handwritten locks on node-postgres, and with the packages advisory-lock and redlock.
import { handOffs, showHandOffs } from './locks/hand-offs.ts'
import { held, showHeld } from './locks/held.ts'
import { pairs, showPairs } from './locks/pairs.ts'
import { peers, showPeers } from './locks/peers.ts'

import type { Options } from './measure.ts'

export async function run(url: string, options: Options) {
  return {
    pairs: await pairs(url, options),
    peers: await peers(url, options),
    held: await held(url, options),
    handOffs: await handOffs(url, options),
  }
}

export function show(report: Awaited<ReturnType<typeof run>>) {
  return [showPairs(report.pairs), showPeers(report.peers), showHeld(report.held), showHandOffs(report.handOffs)].join(
    '\n\n',
  )
}
