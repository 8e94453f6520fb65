import { AsyncLocalStorage } from 'node:async_hooks'

/** One of the current flow of control's holds. The flow runs inside the `with` call that acquired the names. */
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
 * Runs `work` as a flow of control that has a hold. If a call inside the flow waits for a name, Holdfast records that
 * the waiting call also holds the flow's names. Only this record can show that two calls wait for each other.
 */
export function runHolding<T>(held: FlowHold, work: () => T): T {
  return currentFlow.run({ held, outer: currentFlow.getStore() }, work)
}

/** Yields all of the current flow of control's holds, starting with the innermost `with` call. */
export function* holdsOfFlow(): Iterable<FlowHold> {
  for (let flow = currentFlow.getStore(); flow; flow = flow.outer) if (flow.held.handle.held) yield flow.held
}

/** Returns the keys that the current flow of control holds in one database. */
export function keysHeldByFlow(address: string): string[] {
  return [...holdsOfFlow()].flatMap((held) => (held.address === address ? held.keys : []))
}
