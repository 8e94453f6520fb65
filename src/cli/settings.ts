import type { Command, Option } from 'commander'
import { checkName, formatDuration, parseDuration, suggest, UsageError } from '../base/index.js'

/** An option that can also be set by an environment variable. See `EnvOption` in options.ts. */
interface DeclaredOption extends Option {
  readonly variable: string
}

interface OptionValue {
  readonly value: unknown
  /** Option or environment variable that the value comes from. */
  readonly source: string
}

/** Maximum value of the `--since` option. */
export const maxSinceMs = 48 * 3_600_000

/**
 * Reads and checks options by name and type, so that all commands' error messages are consistent. Each command chooses
 * its exit code.
 */
export class Settings {
  readonly #command: Command

  constructor(command: Command) {
    this.#command = command
  }

  text(name: string): string | undefined {
    const given = this.#find(name)?.value
    return typeof given === 'string' && given !== '' ? given : undefined
  }

  /** Reads a name, such as a namespace or a queue. */
  name(option: string): string | undefined {
    const given = this.#find(option)
    const text = this.text(option)
    return text === undefined ? undefined : checkName(text, given!.source)
  }

  /** The namespace that a command works on. Commands that list objects cover all namespaces by default. */
  get namespace(): string {
    return this.name('namespace') ?? 'default'
  }

  /** Reads an option without its environment variable, for commands that must not use the usual database. */
  fromCommandLine(name: string): string | undefined {
    for (let command: Command | null = this.#command; command; command = command.parent) {
      if (command.getOptionValueSource(name) !== 'cli') continue
      const value: string | readonly string[] = command.getOptionValue(name)
      return typeof value === 'string' ? value : value.at(-1)
    }
    return undefined
  }

  flag(name: string): boolean {
    return this.#find(name)?.value === true
  }

  /** Returns true if the option was given in its negated form `--no-…`. */
  isNegated(name: string): boolean {
    return this.#find(name)?.value === false
  }

  durationMs(name: string, atLeastMs = 0, atMostMs = Number.POSITIVE_INFINITY): number | undefined {
    const maxText = Number.isFinite(atMostMs) ? ` and at most ${formatDuration(atMostMs)}` : ''
    return this.#read(
      name,
      `a duration of at least ${formatDuration(atLeastMs)}${maxText}, such as 30s or 5m`,
      (text) => {
        const ms = parseDuration(text)
        return ms !== undefined && ms >= atLeastMs && ms <= atMostMs ? ms : undefined
      },
    )
  }

  wholeNumber(name: string, atLeast: number, atMost: number): number | undefined {
    return this.number(name, atLeast, atMost, 'a whole number', /^-?\d+$/)
  }

  number(name: string, atLeast: number, atMost: number, what = 'a number', pattern = /^-?\d+(\.\d+)?$/) {
    return this.#read(name, `${what} between ${atLeast} and ${atMost}`, (text) => {
      const number = Number(text)
      return pattern.test(text) && number >= atLeast && number <= atMost ? number : undefined
    })
  }

  /** Reads a time with its time zone, or a date in UTC. Rejects local times, because they differ between machines. */
  time(name: string): Date | undefined {
    return this.#read(name, 'a time with a time zone, such as 2030-01-31T18:00Z, or a date', (text) => {
      const date = new Date(text)
      const isWhole = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))?$/.test(text)
      return isWhole && !Number.isNaN(date.getTime()) ? date : undefined
    })
  }

  /** Reads a repeatable option. In the environment variable, the values are separated by commas. */
  list(name: string): string[] | undefined {
    return this.#list(name, ',')?.map((word) => word.trim())
  }

  /**
   * Reads the URLs of the databases, and the option or variable that they come from. In the environment variable, URLs
   * are separated by spaces, because a URL with several hosts contains commas.
   */
  urls(): { readonly source: string; readonly words: readonly string[] } {
    const words = this.#list('url', /\s+/)?.filter((word) => word !== '') ?? []
    return { source: this.#find('url')?.source ?? '--url', words }
  }

  #list(name: string, separator: string | RegExp): string[] | undefined {
    const value = this.#find(name)?.value
    if (Array.isArray(value)) return value
    return typeof value === 'string' ? value.split(separator) : undefined
  }

  oneOf<const T extends string>(name: string, ...words: T[]): T | undefined {
    const expected = words.map((word) => `"${word}"`).join(' or ')
    const suggestion = (text: string) => suggest(text, words)
    return this.#read(name, expected, (text) => words.find((word) => word === text), suggestion)
  }

  #read<T>(
    name: string,
    expected: string,
    read: (text: string) => T | undefined,
    meant: (text: string) => string | undefined = () => undefined,
  ): T | undefined {
    const given = this.#find(name)
    if (typeof given?.value !== 'string') return undefined
    const value = read(given.value)
    if (value === undefined) {
      const word = meant(given.value)
      throw new UsageError(
        `Expected ${given.source} to be ${expected}, got ${JSON.stringify(given.value)}`,
        word && `Did you mean ${word}?`,
      )
    }
    return value
  }

  #find(name: string): OptionValue | undefined {
    for (let command: Command | null = this.#command; command; command = command.parent) {
      const options = command.options.filter((option) => option.attributeName() === name) as DeclaredOption[]
      if (options.length === 0) continue
      if (command.getOptionValueSource(name) === 'cli') {
        const value: unknown = command.getOptionValue(name)
        return { value, source: options.find((option) => option.negate === (value === false))?.long ?? name }
      }
      for (const option of options) {
        const set = process.env[option.variable]
        if (set) return { value: envValue(option, set), source: option.variable }
      }
    }
    return undefined
  }
}

function envValue(option: DeclaredOption, set: string): unknown {
  if (option.required || option.optional) return set
  // NO_COLOR takes effect with any non-empty value (no-color.org). Other flags' variables can be turned off with 0,
  // false or no.
  const isOn = option.variable === 'NO_COLOR' || !/^(0|false|no|off)$/i.test(set)
  return isOn ? !option.negate : undefined
}
