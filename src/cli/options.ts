// This file must not import from other directories of src/, so that `--help` is fast.
import { type Command, Option } from 'commander'
import type { Settings } from './settings.js'

/**
 * An option that can also be set by an environment variable. The command line takes precedence. An empty variable
 * counts as not set.
 */
export class EnvOption extends Option {
  readonly variable: string
  /** The option's allowed values, used for completion. `Settings.oneOf` checks the given value. */
  values: readonly string[] = []

  constructor(flags: string, description: string, variable?: string) {
    super(flags, description)
    this.variable = variable ?? `HOLDFAST_${this.long!.slice(2).replaceAll('-', '_').toUpperCase()}`
    this.description = `${description} [${this.variable}]`
  }

  oneOf(...values: readonly string[]): this {
    this.values = values
    return this
  }
}

/** Reads a command's options. */
export async function settingsOf(command: Command): Promise<Settings> {
  const { Settings } = await import('./settings.js')
  return new Settings(command)
}
