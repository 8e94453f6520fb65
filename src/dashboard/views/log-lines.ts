import { memberOf } from '../../base/index.js'

/** Line of a log as the page shows it. */
export interface ShownLine {
  /** Null if `redact` returned a line without a time. */
  readonly at: string | null
  readonly attempt: number | null
  readonly text: string
  /** Data as JSON. Null if there is none. */
  readonly data: string | null
}

/** Reads log lines from a value that `redact` returned. The value can have any type. */
export function logLinesOf(made: unknown): ShownLine[] {
  if (made === undefined || made === null) return []
  return (Array.isArray(made) ? made : [made]).map((line) => {
    const [at, attempt, text, data] = ['at', 'attempt', 'text', 'data'].map((name) => memberOf(line, name))
    return {
      at: typeof at === 'string' ? at : null,
      attempt: typeof attempt === 'number' ? attempt : null,
      text: typeof text === 'string' ? text : typeof line === 'string' ? line : (JSON.stringify(line) ?? ''),
      data: data === undefined ? null : (JSON.stringify(data) ?? null),
    }
  })
}
