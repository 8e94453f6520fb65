import { setMaxListeners } from 'node:events'
import { memberOf } from './user-values.js'

/**
 * Calls `onAbort` when the signal aborts, or immediately if the signal has already aborted. Returns a function that removes the listener.
 */
export function whenAborted(signal: AbortSignal | undefined, onAbort: (reason: unknown) => void): () => void {
  if (signal === undefined) return () => {}
  const listener = () => onAbort(signal.reason)
  if (signal.aborted) listener()
  else {
    // Many calls may wait on one signal. Without this setting, Node.js would warn about a listener leak.
    setMaxListeners(0, signal)
    signal.addEventListener('abort', listener, { once: true })
  }
  return () => signal.removeEventListener('abort', listener)
}

/** Resolves after `ms` milliseconds, or as soon as the signal aborts. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms)
    const forget = whenAborted(signal, done)
    function done() {
      clearTimeout(timer)
      // If the signal has already aborted, `done` runs before `forget` is assigned, so the call to `forget` is
      // deferred.
      queueMicrotask(() => forget())
      resolve()
    }
  })
}

/** Whether a function threw this error because its signal aborted. */
export function isAbortError(signal: AbortSignal, error: unknown): boolean {
  if (!signal.aborted) return false
  if (error === signal.reason) return true
  return memberOf(error, 'cause') === signal.reason || memberOf(error, 'name') === 'AbortError'
}

/**
 * Settles with the result of the work, or rejects as soon as one of the signals aborts. If a signal aborts first, the work continues, but
 * its result is ignored.
 */
export function orAborted<T>(
  signals: AbortSignal | readonly (AbortSignal | undefined)[] | undefined,
  work: Promise<T>,
): Promise<T> {
  const given = [signals].flat().filter((signal) => signal !== undefined)
  if (given.length === 0) return work
  return new Promise((resolve, reject) => {
    const forgets: (() => void)[] = []
    const end = (settle: () => void) => {
      for (const forget of forgets) forget()
      settle()
    }
    for (const signal of given) forgets.push(whenAborted(signal, (reason) => end(() => reject(reason))))
    work.then(
      (result) => end(() => resolve(result)),
      (error) => end(() => reject(error)),
    )
  })
}

/** Returns a signal that aborts as soon as any of the given signals aborts. Call `forget` when the signal is no longer needed. */
export function combineSignals(...signals: readonly (AbortSignal | undefined)[]): {
  readonly signal: AbortSignal
  forget(): void
} {
  const given = signals.filter((signal) => signal !== undefined)
  if (given.length === 1) return { signal: given[0]!, forget() {} }
  const controller = new AbortController()
  const forgets = given.map((signal) => whenAborted(signal, (reason) => controller.abort(reason)))
  return {
    signal: controller.signal,
    forget() {
      for (const forget of forgets) forget()
    },
  }
}

/**
 * Returns the result of the work, or undefined if the work takes longer than `ms` milliseconds. Work that takes longer continues in the
 * background.
 */
export function resultWithin<T>(ms: number, work: Promise<T>): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms, undefined)
    void work.then(resolve, reject).then(() => clearTimeout(timer))
  })
}
