import { whenAborted } from '../base/index.js'

/** Settles like the promise, or rejects with the reason as soon as the signal aborts; the promise goes on unheard. */
export async function untilAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise
  let forget = () => {}
  const aborted = new Promise<never>((_, reject) => {
    forget = whenAborted(signal, reject)
  })
  try {
    return await Promise.race([promise, aborted])
  } finally {
    forget()
  }
}
