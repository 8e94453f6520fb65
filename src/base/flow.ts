import { AsyncLocalStorage } from 'node:async_hooks'

/** Something that a flow of control holds, because it runs inside the `with` that took it. */
export interface FlowHold {
  readonly handle: { readonly held: boolean }
  /** What was taken, by its keys. */
  readonly keys: readonly string[]
  /** The address of the database in which it is held. */
  readonly address: string
}

interface Flow {
  readonly held: FlowHold
  readonly outer: Flow | undefined
}

const currentFlow = new AsyncLocalStorage<Flow>()

/**
 * Runs `work` as a flow of control that holds something. Whoever waits in it is known to hold that meanwhile, which is the
 * only proof there is that two calls wait for each other.
 */
export function runHolding<T>(held: FlowHold, work: () => T): T {
  return currentFlow.run({ held, outer: currentFlow.getStore() }, work)
}

/** All that the present flow of control holds, the innermost first. */
export function* holdsOfFlow(): Iterable<FlowHold> {
  for (let flow = currentFlow.getStore(); flow; flow = flow.outer) if (flow.held.handle.held) yield flow.held
}

/** The keys of what the present flow of control holds in one database. */
export function keysHeldByFlow(address: string): string[] {
  return [...holdsOfFlow()].flatMap((held) => (held.address === address ? held.keys : []))
}
