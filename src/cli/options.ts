// The options of the words. Nothing here needs the rooms below, so that `--help` loads none of them.
import { type Command, Option } from 'commander'
import type { Settings } from './settings.js'

/** An option whose value may also come from the environment. The command line wins; an empty variable counts as unset. */
export class TwinOption extends Option {
  readonly twin: string
  /** The words that it may be, for those who complete them; `Settings.oneOf` checks them. */
  values: readonly string[] = []

  constructor(flags: string, description: string, twin?: string) {
    super(flags, description)
    this.twin = twin ?? `HOLDFAST_${this.long!.slice(2).replaceAll('-', '_').toUpperCase()}`
    this.description = `${description} [${this.twin}]`
  }

  oneOf(...values: readonly string[]): this {
    this.values = values
    return this
  }
}

/** One that may be given several times. */
export function repeated(option: TwinOption): TwinOption {
  return option.argParser((word: string, words: string[] = []) => [...words, word]) as TwinOption
}

/** What a command was told. */
export async function settingsOf(command: Command): Promise<Settings> {
  const { Settings } = await import('./settings.js')
  return new Settings(command)
}
