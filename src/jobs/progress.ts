import { isPlain, type JobProgress, toJson, validEscapes } from '../base/index.js'

const maxBytes = 2_000

/** Returns a copy of a valid progress. Returns undefined for any other value, because reporting progress must not fail. */
export function readProgress(given: unknown): JobProgress | undefined {
  if (typeof given === 'number') return Number.isFinite(given) ? given : undefined
  try {
    if (typeof given !== 'object' || given === null || !isPlain(given)) return undefined
    const json = validEscapes(toJson(given, 'progress')!)
    return Buffer.byteLength(json) <= maxBytes ? JSON.parse(json) : undefined
  } catch {
    return undefined
  }
}
