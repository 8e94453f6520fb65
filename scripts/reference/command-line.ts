// docs/reference/command-line.md, from the definitions of the commands.
import { existsSync } from 'node:fs'
import type { Argument, Command, Option } from 'commander'
import { examplesOf } from '../../dist/cli/command.js'
import type { EnvOption } from '../../dist/cli/options.js'
import { makeProgram } from '../../dist/cli/program.js'

const plain = (text: string) => text.replaceAll('|', '\\|').replaceAll('<', '\\<')
const code = (text: string) => `\`${text.replaceAll('|', '\\|')}\``
const upper = (text: string) => text.charAt(0).toUpperCase() + text.slice(1)
const isShown = (command: Command) => !command.name().startsWith('__') && command.name() !== 'help'

/** As all of ours are: with the name of a variable. */
const variableOf = (option: Option) => (option as Partial<EnvOption>).variable

function optionsTable(options: readonly Option[]) {
  if (options.length === 0) return []
  const rows = options.map((option) => {
    const { flags, description } = option
    const twin = variableOf(option) ?? ''
    return `| ${code(flags)} | ${plain(upper(description.replace(` [${twin}]`, '')))} | ${code(twin)} |`
  })
  return ['', '| option | what it does | variable |', '|---|---|---|', ...rows]
}

function argumentsTable(args: readonly Argument[]) {
  if (args.length === 0) return []
  const rows = args.map((argument) => {
    const name = `${argument.name()}${argument.variadic ? '…' : ''}`
    return `| ${code(argument.required ? `<${name}>` : `[${name}]`)} | ${plain(upper(argument.description))} |`
  })
  return ['', '| argument | what it is |', '|---|---|', ...rows]
}

function schemaOf(words: string[]) {
  const name = `${words.join('-')}.schema.json`
  if (!existsSync(new URL(`../../dist/schemas/${name}`, import.meta.url))) return []
  return ['', `JSON schema of \`--json\`: \`holdfast/schemas/${name}\`.`]
}

function section(command: Command, words: string[]): string[] {
  const verbs = command.commands.filter(isShown)
  const here = words.join(' ')
  const usage = command.usage().replace('[options] ', '').replace('[options]', '').trim()
  return [
    '',
    `${'#'.repeat(words.length + 1)} ${here}`,
    '',
    verbs.length === 0 ? command.description() || command.summary() : `${upper(command.description())}.`,
    ...(verbs.length === 0 ? ['', '```sh', ...examplesOf(command), '```'] : []),
    ...(usage && verbs.length === 0 ? ['', `Usage: ${code(`holdfast ${here} ${usage}`)}`] : []),
    ...argumentsTable(command.registeredArguments),
    ...optionsTable(command.options),
    ...(verbs.length === 0 ? schemaOf(words) : []),
    ...verbs.flatMap((verb) => section(verb, [...words, verb.name()])),
  ]
}

/** The page. */
export function commandLine() {
  const program = makeProgram()
  return `${[
    '# The command line',
    '',
    '<!-- Written by npm run reference from the definitions of the commands. -->',
    '',
    'A command prints its results to stdout and everything else to stderr. It prints a table on a terminal and fields separated by tabs',
    'in a pipe, one JSON document with `--json`, and one JSON document per line with `--jsonl`. You can set each option by the variable',
    'next to it. An option on the command line overrides its variable. `holdfast help lock run` prints the help of a command.',
    '',
    'The package contains the JSON schema of each document, which a program imports for example as',
    '`holdfast/schemas/lock-ls.schema.json`. Where the schema has a definition `row`, it describes one line of `--jsonl`.',
    '',
    '## Exit codes',
    '',
    '| code | meaning |',
    '|---|---|',
    '| 0 | done |',
    '| 1 | failed |',
    '| 2 | the command line is invalid, or a confirmation is needed and stdin is no terminal |',
    '| 3 | the condition is not met: the named thing does not exist, or a migration is pending |',
    '| 4 | the database cannot be reached, or refuses the login |',
    '',
    '`lock run` exits with the status of its command, or with 123 if it lost the lock during the run, 124 if the name is held and the',
    'wait timed out, 125 if it failed before it started the command, 126 if the command cannot be executed, 127 if the command was not',
    'found, and 128+n if signal n ended the command.',
    '',
    '## Options of every command',
    ...optionsTable(program.options.filter((option) => variableOf(option) !== undefined)),
    ...program.commands.filter(isShown).flatMap((command) => section(command, [command.name()])),
  ].join('\n')}\n`
}
