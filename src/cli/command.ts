import type { Command } from 'commander'
import { EnvOption, settingsOf } from './options.js'
import type { Settings } from './settings.js'

const examples = new WeakMap<Command, readonly string[]>()

/**
 * Adds a command group, such as `lock`. The group's help hides the program's options, because a group only contains
 * commands.
 */
export function addNoun(program: Command, name: string, description: string, lines: readonly string[]): Command {
  const noun = program.command(name).description(description)
  return withExamples(noun.configureHelp({ showGlobalOptions: false, sortSubcommands: false }), lines)
}

/** Adds a command to a group, or directly to the program. */
export function addVerb(parent: Command, name: string, lines: readonly string[]): Command {
  const verb = parent.command(name)
  return withExamples(verb.configureHelp({ showGlobalOptions: true, sortSubcommands: false }), lines)
}

export function withExamples(command: Command, lines: readonly string[]): Command {
  examples.set(command, lines)
  return command.addHelpText('before', `Examples:\n${lines.map((line) => `  ${line}`).join('\n')}\n`)
}

/** Returns a command's examples. The reference prints the examples, and tests run them. */
export function examplesOf(command: Command): readonly string[] {
  return examples.get(command) ?? []
}

/** Creates a command's action from a function that receives the settings and the arguments. */
export function runs<Args extends unknown[]>(run: (settings: Settings, ...args: Args) => unknown) {
  return async (...all: unknown[]): Promise<void> => {
    // Commander appends the parsed options and the command to the arguments.
    await run(await settingsOf(all.at(-1) as Command), ...(all.slice(0, -2) as Args))
  }
}

export function keyOption(): EnvOption {
  return new EnvOption('--key', 'treat NAME as a 64-bit key in decimal, for locks without a name')
}

export function yesOption(): EnvOption {
  return new EnvOption('--yes', 'do not ask for confirmation')
}
