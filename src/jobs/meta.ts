import { describe, isPlain, type JobMeta, toJson, UsageError } from '../base/index.js'
import { PayloadTooLargeError } from './errors.js'

const maxBytes = 2_000

/** The meta of a job that was enqueued without one. */
export const noMeta: JobMeta = Object.freeze({})

export const metaRule = { expected: 'a plain object', read: readMeta }

/** Returns the value if it is a plain object. */
export function readMeta(given: unknown): JobMeta | undefined {
  return typeof given === 'object' && given !== null && isPlain(given) ? (given as JobMeta) : undefined
}

/** Serializes a job's meta as JSON. Returns undefined if it has no properties, because such a job stores no meta. */
export function writeMeta(meta: JobMeta | undefined): string | undefined {
  if (meta === undefined) return undefined
  const json = toJson(meta, 'meta')!
  if (!json.startsWith('{'))
    throw new UsageError(`Expected meta to be a plain object, got ${describe(JSON.parse(json))}`)
  const bytes = Buffer.byteLength(json)
  if (bytes > maxBytes) throw new PayloadTooLargeError('meta', bytes, maxBytes)
  return json === '{}' ? undefined : json
}

/** Combines the metas of several jobs into a JSON array. Returns null if no job has a meta. */
export function writeMetas(metas: readonly (string | undefined)[]): string | null {
  return metas.some((meta) => meta !== undefined) ? `[${metas.map((meta) => meta ?? 'null').join(',')}]` : null
}
