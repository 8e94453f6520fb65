import type { Command } from 'commander'
import { EnvOption } from './options.js'

export function addNoun(program: Command, name: string, description: string): Command {
  return program.command(name).description(description)
}

/** The program's options are for the verbs of a noun; in its own help they would only hide the verbs. */
export function withoutGlobalOptions(noun: Command): void {
  // After the verbs were made, for they inherit what a noun has been told by then.
  noun.configureHelp({ showGlobalOptions: false })
}

export function withNameArgument(command: Command): Command {
  return command
    .argument('<name>', 'the name')
    .addOption(new EnvOption('--key', 'NAME is a 64-bit key in decimal, for locks that have no name'))
}

const examples = new WeakMap<Command, readonly string[]>()

export function withExamples(command: Command, lines: readonly string[]): void {
  examples.set(command, lines)
  command.addHelpText('before', `Examples:\n${lines.map((line) => `  ${line}`).join('\n')}\n`)
}

/** For the reference, and for the tests that run them. */
export function examplesOf(command: Command): readonly string[] {
  return examples.get(command) ?? []
}
