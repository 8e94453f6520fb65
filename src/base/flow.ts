import { AsyncLocalStorage } from 'node:async_hooks'
import v8 from 'node:v8'

/** A hold of the current flow of control, which runs inside the `with` call that acquired the names. */
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

interface FlowTracker {
  getStore(): Flow | undefined
  run<T>(flow: Flow, work: () => T): T
}

/**
 * Runs `work` as a flow of control that has a hold. If a call inside the flow waits for a name, Holdfast records that
 * the waiting call also holds the flow's names. Only this record can show that two calls wait for each other.
 */
export function runHolding<T>(held: FlowHold, work: () => T): T {
  tracker ??= newTracker()
  return tracker.run({ held, outer: tracker.getStore() }, work)
}

/** Yields all of the current flow of control's holds, starting with the innermost `with` call. */
export function* holdsOfFlow(): Iterable<FlowHold> {
  for (let flow = tracker?.getStore(); flow; flow = flow.outer) if (flow.held.handle.held) yield flow.held
}

/** Returns the keys that the current flow of control holds in one database. */
export function keysHeldByFlow(address: string): string[] {
  return [...holdsOfFlow()].flatMap((held) => (held.address === address ? held.keys : []))
}

const flowOfPromise = Symbol('holdfast.flow')

/**
 * Follows a flow of control through `await` and `then`, but not into the callbacks of timers and emitters. Before
 * Node.js 24, AsyncLocalStorage follows these callbacks too, but makes each promise in the process several times as
 * expensive.
 */
class PromiseTracker implements FlowTracker {
  #current: Flow | undefined

  constructor() {
    type FlowPromise = Promise<unknown> & { [flowOfPromise]?: Flow }
    v8.promiseHooks.createHook({
      init: (promise: FlowPromise) => {
        if (this.#current !== undefined) promise[flowOfPromise] = this.#current
      },
      before: (promise: FlowPromise) => {
        this.#current = promise[flowOfPromise]
      },
      after: () => {
        this.#current = undefined
      },
    })
  }

  getStore(): Flow | undefined {
    return this.#current
  }

  run<T>(flow: Flow, work: () => T): T {
    const outer = this.#current
    this.#current = flow
    try {
      return work()
    } finally {
      this.#current = outer
    }
  }
}

/** Created by the first flow, because a process without flows must not pay for promise hooks. */
let tracker: FlowTracker | undefined

function newTracker(): FlowTracker {
  if (Number.parseInt(process.versions.node, 10) >= 24) return new AsyncLocalStorage<Flow>()
  try {
    return new PromiseTracker()
  } catch {
    // Runtimes other than Node.js may have no promise hooks.
    return new AsyncLocalStorage<Flow>()
  }
}
