import { AsyncLocalStorage } from 'node:async_hooks'

/** Something that a flow of control holds, because the flow runs inside the `with` that acquired it. */
export interface FlowHold {
  readonly handle: { readonly held: boolean }
  readonly keys: readonly string[]
  /** Address of the database in which the name is held. */
  readonly address: string
}

interface Flow {
  readonly held: FlowHold
  readonly outer: Flow | undefined
}

const currentFlow = new AsyncLocalStorage<Flow>()

/**
 * Runs `work` as a flow of control that holds something. A call that waits inside the flow is recorded as a holder. Only this record can
 * show that two calls wait for each other.
 */
export function runHolding<T>(held: FlowHold, work: () => T): T {
  return currentFlow.run({ held, outer: currentFlow.getStore() }, work)
}

/** Everything that the current flow of control holds, the innermost first. */
export function* holdsOfFlow(): Iterable<FlowHold> {
  for (let flow = currentFlow.getStore(); flow; flow = flow.outer) if (flow.held.handle.held) yield flow.held
}

/** The keys that the current flow of control holds in one database. */
export function keysHeldByFlow(address: string): string[] {
  return [...holdsOfFlow()].flatMap((held) => (held.address === address ? held.keys : []))
}
