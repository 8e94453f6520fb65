import { Command } from 'commander'
import type { NamedAct } from './act.js'
import { EnvOption, settingsOf } from './options.js'
import type { Settings } from './settings.js'

const examples = new WeakMap<Command, readonly string[]>()

/** A command whose options can also be set by environment variables. */
export class CliCommand extends Command {
  override createCommand(name?: string): CliCommand {
    return new CliCommand(name)
  }

  envOption(flags: string, description: string, variable?: string): this {
    return this.addOption(new EnvOption(flags, description, variable))
  }

  /** Adds an option that can be given several times. */
  repeatedOption(flags: string, description: string, variable?: string): this {
    const option = new EnvOption(flags, `${description}; repeatable`, variable)
    return this.addOption(option.argParser((word: string, words: string[] = []) => [...words, word]))
  }

  /** Adds the `--state` option, which selects objects in one of these states. */
  stateOption(objects: string, ...states: readonly string[]): this {
    const list = `${states.slice(0, -1).join(', ')} or ${states.at(-1)}`
    return this.addOption(new EnvOption('--state <state>', `only ${objects} in this state: ${list}`).oneOf(...states))
  }

  /**
   * Adds the `--since` option, which selects recent objects. `objects` describes the objects, such as `deliveries that
   * started`.
   */
  sinceOption(objects: string): this {
    return this.envOption('--since <duration>', `list only ${objects} within this time, such as 10m or 2h`)
  }

  keyOption(): this {
    return this.envOption('--key', 'treat NAME as a 64-bit key in decimal, for locks without a name')
  }

  yesOption(): this {
    return this.envOption('--yes', 'do not ask for confirmation')
  }
}

/** Aliases of verbs, for users who are used to kubectl, docker or gh. */
const aliases: Readonly<Record<string, string>> = { ls: 'list', show: 'get', forget: 'rm' }

/** Program options that the help of a command shows. The program's own help shows all of them. */
const frequentOptions = ['--url', '--namespace', '--json']

/**
 * Adds a command group, such as `lock`, which can also be typed in the plural. The group's help hides the program's
 * options: a group only contains commands.
 */
export function addNoun(program: CliCommand, name: string, description: string, lines: readonly string[]): CliCommand {
  const plural = name.endsWith('y') ? `${name.slice(0, -1)}ies` : `${name}s`
  const noun = program.command(name).alias(plural).description(description)
  return withExamples(noun.configureHelp({ showGlobalOptions: false, sortSubcommands: false }), lines)
}

/** Adds a command to a group, or directly to the program. */
export function addVerb(parent: CliCommand, name: string, lines: readonly string[]): CliCommand {
  const verb = parent.command(name)
  const alias = aliases[name]
  if (alias) verb.alias(alias)
  const visibleGlobalOptions = () => rootOf(parent).options.filter(({ long }) => frequentOptions.includes(long ?? ''))
  verb.configureHelp({ showGlobalOptions: true, sortSubcommands: false, visibleGlobalOptions })
  verb.addHelpText('after', '\n`holdfast --help` shows all global options.')
  return withExamples(verb, lines)
}

/** Returns true if the word is the command's name or alias. */
export function isNamed(command: Command, word: string): boolean {
  return command.name() === word || command.aliases().includes(word)
}

function rootOf(command: Command): Command {
  return command.parent ? rootOf(command.parent) : command
}

export function withExamples(command: CliCommand, lines: readonly string[]): CliCommand {
  examples.set(command, lines)
  return command.addHelpText('before', `Examples:\n${lines.map((line) => `  ${line}`).join('\n')}\n`)
}

/** Returns a command's examples. The reference prints the examples, and tests run them. */
export function examplesOf(command: Command): readonly string[] {
  return examples.get(command) ?? []
}

/** Creates a command's action. `load` imports the function that receives the settings and the command's arguments. */
export function runs<Args extends unknown[]>(load: () => Promise<(settings: Settings, ...args: Args) => unknown>) {
  return async (...all: unknown[]): Promise<void> => {
    const run = await load()
    // Commander appends the parsed options and the command to the arguments.
    await run(await settingsOf(all.at(-1) as Command), ...(all.slice(0, -2) as Args))
  }
}

/** Creates the action for a command that runs an act on the object in the command's argument. */
export function runsAct(name: NamedAct) {
  return runs(async () => (await import('./act.js')).actOn(name))
}
