import { describe } from './options.js'

/** What is kept of an error. */
export interface RecordedError {
  readonly name: string
  readonly message: string
  readonly code?: string | undefined
  readonly stack?: string | undefined
}

const longestText = 4_000

/** What a handler threw, as it is written down. */
export function recordOf(error: unknown): RecordedError {
  if (!(error instanceof Error)) return { name: 'Error', message: clip(textOf(error)) }
  const { name, message, stack, code } = error as Error & { code?: unknown }
  return {
    name: clip(textOf(name)),
    message: clip(textOf(message)),
    ...(typeof code === 'string' ? { code: clip(code) } : {}),
    ...(typeof stack === 'string' && stack !== '' ? { stack: clip(stack) } : {}),
  }
}

/** Anything can be thrown: also what has no text of its own. */
function textOf(given: unknown): string {
  try {
    return String(given)
  } catch {
    return describe(given)
  }
}

/** Fit for a column of text: not endless, no zero bytes, no broken Unicode. */
export function clip(text: string): string {
  return text.slice(0, longestText).replaceAll('\0', '\uFFFD').toWellFormed()
}
