// All commands of the command line, read off its own definitions.
import type { Command } from 'commander'
import { makeProgram } from '../../src/cli/program.js'

export interface Verb {
  /** `['lock', 'ls']`. */
  readonly words: readonly string[]
  readonly command: Command
}

/** Those that do something; not the nouns, nor what tells about commands. */
export const verbs: readonly Verb[] = verbsOf(makeProgram(), [])

function verbsOf(command: Command, words: readonly string[]): Verb[] {
  if (command.commands.length === 0) return [{ words, command }]
  return command.commands
    .filter((inner) => !/^(__.*|help)$/.test(inner.name()))
    .flatMap((inner) => verbsOf(inner, [...words, inner.name()]))
}
