import { UsageError } from './errors.js'
import { describe } from './user-values.js'

/** Arguments of a call such as `locks.with(name, options, work)`, which ends with a function and whose options are optional. */
export type OptionsAndWork<Options, Work> = [work: Work] | [options: Options, work: Work]

/** Returns the options and the function. Throws unless the last argument is a function. */
export function readWork<Options, Work>(
  where: string,
  rest: OptionsAndWork<Options, Work>,
): [options: Options | undefined, work: Work] {
  const [options, work] = rest.length === 1 ? [undefined, rest[0]] : rest
  checkWork(where, work)
  return [options, work]
}

/** Throws unless the last argument of a call is a function. */
export function checkWork(where: string, work: unknown): void {
  if (typeof work === 'function') return
  throw new UsageError(
    `Expected the last argument of ${where} to be a function, got ${describe(work)}`,
    'Pass the function last, after the options.',
  )
}
