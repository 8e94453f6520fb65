// Locks against what people write by hand with node-postgres, and what they install.
import { handOffs, showHandOffs } from './locks/hand-offs.js'
import { held, showHeld } from './locks/held.js'
import { pairs, showPairs } from './locks/pairs.js'
import { peers, showPeers } from './locks/peers.js'

export async function run(url, options) {
  return {
    pairs: await pairs(url, options),
    peers: await peers(url, options),
    held: await held(url, options),
    handOffs: await handOffs(url, options),
  }
}

export function show(report) {
  return [showPairs(report.pairs), showPeers(report.peers), showHeld(report.held), showHandOffs(report.handOffs)].join(
    '\n\n',
  )
}
