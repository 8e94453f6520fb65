import { HoldfastError, isInstance, messageOf } from '../base/index.js'
import type { ErrorSaid } from './wire.js'

const longestText = 8_000
const longestJson = 2_000_000

/** What is told of an error. Never its stack: it names files. */
export function saidOf(error: unknown): ErrorSaid {
  if (isInstance(error, HoldfastError))
    return { code: error.code, message: cut(error.message), hint: error.hint ?? null }
  return { code: 'INTERNAL', message: `The dashboard failed: ${messageOf(error)}`, hint: null }
}

/** As JSON, with long texts cut in the middle. */
export function jsonOf(data: unknown): string {
  const json = JSON.stringify(data ?? null, (_, value) => (typeof value === 'string' ? cut(value) : value))
  if (json.length <= longestJson) return json
  throw new HoldfastError('The answer of this view is too large to be shown', {
    code: 'TOO_LARGE',
    retryable: false,
    hint: 'Narrow it by a namespace, or look with the command line.',
  })
}

function cut(text: string): string {
  if (text.length <= longestText) return text
  const half = longestText / 2
  return `${text.slice(0, half)} … ${text.length - longestText} characters … ${text.slice(-half)}`.toWellFormed()
}
