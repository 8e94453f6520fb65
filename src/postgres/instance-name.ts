import { hostname } from 'node:os'
import { checkNoMissingValue, describe, type Events, UsageError } from '../base/index.js'

const maxLength = 63
export const maxVersionLength = 63
const minDays = 30

/**
 * Returns the time for which an instance's name is kept after the instance is gone. Jobs that the instance ran refer to
 * the name for up to `retainDays` after they end.
 */
export function instanceNameDays(retainDays: number): number {
  return Math.max(minDays, retainDays + 1)
}

/** Throws if a value cannot be the name of an instance. */
export function checkInstanceName(given: unknown): string {
  const fits =
    typeof given === 'string' &&
    given.length <= maxLength &&
    given.isWellFormed() &&
    given.trim() === given &&
    // Letters, marks, numbers, punctuation, symbols, and plain spaces.
    /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]+$/u.test(given) &&
    !given.includes('#')
  if (!fits) {
    throw new UsageError(
      `Expected the name of the instance to be a string of 1 to ${maxLength} printable characters without "#", got ${describe(given)}`,
      'Use a short name such as "worker-3". Holdfast adds "#2" if another live instance has the same name.',
    )
  }
  checkNoMissingValue(given, 'the name of the instance')
  return given
}

/** Throws if a value cannot be the version of a program. */
export function checkVersion(given: unknown): string {
  const fits = typeof given === 'string' && given.length <= maxVersionLength && /^[\x21-\x7e]+$/.test(given)
  if (!fits) {
    throw new UsageError(
      `Expected the version of the program to be a string of 1 to ${maxVersionLength} printable ASCII characters without spaces, got ${describe(given)}`,
    )
  }
  return given
}

/** Name of this instance: the name that the program wants, and the name that the database has confirmed. */
export class InstanceName {
  readonly host = hostname()
  /** Name from the `name` option, or `<host>/<pid>`. */
  readonly wanted: string
  readonly isGiven: boolean
  readonly #events: Events
  #current: string
  #isOpen = false

  constructor(given: string | undefined, events: Events) {
    this.isGiven = given !== undefined
    this.wanted = given ?? `${printable(this.host)}/${process.pid}`
    this.#current = this.wanted
    this.#events = events
  }

  /** The wanted name, possibly with a suffix such as `#2`. */
  get current(): string {
    return this.#current
  }

  /** Whether the given name has a suffix, because another instance had the name when this instance opened or reconnected. */
  get isReplaced(): boolean {
    return this.isGiven && this.#current !== this.wanted
  }

  onRecorded(recorded: string): void {
    if (recorded === this.#current) return
    this.#current = recorded
    if (this.#isOpen) this.#emitTaken()
  }

  onOpened(): void {
    this.#isOpen = true
    // The program can add listeners only after `Holdfast.open` has returned.
    setImmediate(() => this.#emitTaken())
  }

  #emitTaken(): void {
    if (this.isReplaced) this.#events.emitter('instance.name-taken')?.({ wanted: this.wanted, name: this.#current })
  }
}

/** Returns the name with the process, such as `worker-3 (process 4242 on web-1)`. The default name contains the process. */
export function nameWithProcess(name: string, host: string | null, osPid: number | null): string {
  const isInName = host === null || name.startsWith(`${host}/${osPid}`)
  return isInName ? name : `${name} (process ${osPid} on ${host})`
}

/** Some systems accept any character in a host's name. */
function printable(host: string): string {
  return host.replace(/[^!"$-~]/g, '-').slice(0, maxLength) || 'unknown-host'
}
