// Lists all commands of the command line, read from its own definitions.
import type { Command } from 'commander'
import { makeProgram } from '../../src/cli/program.js'

export interface Verb {
  /** `['lock', 'ls']`. */
  readonly words: readonly string[]
  readonly command: Command
}

/** Commands that perform an action. Nouns, `help` and hidden commands are not included. */
export const verbs: readonly Verb[] = verbsOf(makeProgram(), [])

function verbsOf(command: Command, words: readonly string[]): Verb[] {
  if (command.commands.length === 0) return [{ words, command }]
  return command.commands
    .filter((inner) => !/^(__.*|help)$/.test(inner.name()))
    .flatMap((inner) => verbsOf(inner, [...words, inner.name()]))
}
