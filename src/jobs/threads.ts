import { describe, readOptions, text, UsageError, wholeNumber } from '../base/index.js'
import type { Threads } from './definition.js'

const rules = {
  module: {
    expected: 'a URL of a file',
    hint: 'Example: { threads: { module: new URL("./resize.js", import.meta.url) } }',
    read: (given: unknown) => (isModule(given) ? String(given) : undefined),
  },
  export: text,
  max: wholeNumber(1, 1_000),
  maxHeapMb: wholeNumber(1, 1_000_000),
}

export function readThreads(given: unknown): Threads {
  const { module, export: exportName = 'default', max = 1, maxHeapMb } = readOptions('threads', given, rules)
  if (module === undefined) throw new UsageError(`Expected threads.module, got ${describe(module)}`, rules.module.hint)
  return Object.freeze({ module, exportName, max, maxHeapMb })
}

function isModule(given: unknown): boolean {
  if (!(given instanceof URL) && typeof given !== 'string') return false
  return ['file:', 'data:'].some((protocol) => String(given).startsWith(protocol))
}
