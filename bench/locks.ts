// Compares locks with handwritten locks on node-postgres, and with the packages advisory-lock and redlock.
import { Holdfast } from 'holdfast'
import pg from 'pg'
import { handOffs, showHandOffs } from './locks/hand-offs.ts'
import { handlers, showHandlers } from './locks/handlers.ts'
import { held, showHeld } from './locks/held.ts'
import { newNames, showNewNames } from './locks/new-names.ts'
import { pairs, showPairs } from './locks/pairs.ts'
import { peers, showPeers } from './locks/peers.ts'
import { recipe } from './locks/recipe.ts'
import type { Options } from './measure.ts'
import { type Callers, oneCaller, showOneCaller } from './one-caller.ts'

const callers: Callers = {
  async holdfast(url) {
    const holdfast = await Holdfast.open({ url, namespace: 'bench' })
    return {
      once: async () => (await holdfast.locks.tryAcquire('alone'))!.release(),
      close: () => holdfast.close(),
    }
  },
  async recipe(url) {
    const pool = new pg.Pool({ connectionString: url, max: 1 })
    return { once: () => recipe(pool, 1), close: () => pool.end() }
  },
}

export async function run(url: string, options: Options) {
  return {
    oneCaller: await oneCaller(url, 'locks', callers, options),
    pairs: await pairs(url, options),
    newNames: await newNames(url, options),
    handlers: await handlers(url, options),
    peers: await peers(url, options),
    held: await held(url, options),
    handOffs: await handOffs(url, options),
  }
}

export function show(report: Awaited<ReturnType<typeof run>>) {
  return [
    showOneCaller('One lock: acquire + release', report.oneCaller, 0.9),
    showPairs(report.pairs),
    showNewNames(report.newNames),
    showHandlers(report.handlers),
    showPeers(report.peers),
    showHeld(report.held),
    showHandOffs(report.handOffs),
  ].join('\n\n')
}
