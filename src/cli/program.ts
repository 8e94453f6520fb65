import { readFileSync } from 'node:fs'
import type { Command } from 'commander'
import { addAudit } from './audit/command.js'
import { addBench } from './bench/command.js'
import { addChanges } from './changes/command.js'
import { addVerb, CliCommand, isNamed, withExamples } from './command.js'
import { addCompletion } from './completion/command.js'
import { addDashboard } from './dashboard/command.js'
import { addDelivery } from './delivery/command.js'
import { addDemo } from './demo/command.js'
import { addDev } from './dev/command.js'
import { addDoctor } from './doctor/command.js'
import { addGraph } from './graph/command.js'
import { addInstance } from './instance/command.js'
import { addJob } from './job/command.js'
import { addLease } from './lease/command.js'
import { addLimit } from './limit/command.js'
import { addLock } from './lock/command.js'
import { addMcp } from './mcp/command.js'
import { addMigrate } from './migrate/command.js'
import { addQueue } from './queue/command.js'
import { addSchedule } from './schedule/command.js'
import { addTop } from './top/command.js'
import { addWork } from './work/command.js'

// The help lists the commands in this order.
const groups: readonly (readonly [heading: string, adds: readonly ((program: CliCommand) => void)[]])[] = [
  ['Look:', [addTop, addGraph, addDoctor, addDashboard, addChanges, addAudit]],
  [
    'Inspect and change objects:',
    [addLock, addLease, addLimit, addDelivery, addJob, addQueue, addSchedule, addInstance],
  ],
  ['Run:', [addWork, addMigrate, addMcp]],
  ['Develop:', [addDemo, addDev, addBench, addCompletion, addHelp]],
]

/**
 * Creates the command line parser. A command's code is imported only when the command runs, so that `--help` is fast.
 * Options for the database and the output belong to the program, and users may write these options before or after the
 * command name.
 */
export function makeProgram(): CliCommand {
  const program = new CliCommand('holdfast')
    .description('Distributed locks, leader election, cron schedules, a job queue and rate limits on PostgreSQL.')
    .version(packageVersion(), '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .helpCommand(false)
    .configureHelp({ showGlobalOptions: true, sortSubcommands: false, subcommandTerm: (command) => command.name() })
    .configureOutput({ outputError: () => {} })
    .exitOverride()
    .repeatedOption(
      '--url <url>',
      'URL of the database (default: taken from the PG* variables), or NAME=URL for each of several databases',
      'DATABASE_URL',
    )
    .envOption('--database <name>', 'name of the database to use, if --url was given for several databases')
    .envOption('--direct-url <url>', 'URL of the same database that bypasses a pooler, for locks')
    .envOption('--namespace <name>', 'namespace to use (default: "default")')
    .envOption('--schema <name>', 'schema that contains the Holdfast tables (default: "holdfast")')
    .envOption('--expiry <duration>', 'how long a frozen process keeps its locks (default: 10s)')
    .envOption('--json', 'print one JSON document on stdout')
    .envOption('--jsonl', 'print one JSON document per line')
    .envOption('--header', 'print the names of the columns first, if a list is printed in a pipe')
    .envOption('--all', 'print all rows of a list, not only those that fit on the screen', 'HOLDFAST_ALL_ROWS')
    .envOption('--no-color', 'print no colours', 'NO_COLOR')
  withExamples(program, [
    'holdfast lock run nightly-report -- node report.js',
    'holdfast lock ls',
    'holdfast lease ls',
    'holdfast work jobs.js',
    'holdfast job ls --state failed',
    'holdfast schedule next "0 3 * * *"',
    'holdfast graph',
    'holdfast top',
    'holdfast migrate --dry-run',
    'holdfast doctor',
  ])
  for (const [heading, adds] of groups) {
    program.commandsGroup(heading)
    for (const add of adds) add(program)
  }
  program.addHelpText('after', exitCodes)
  return program
}

/** Adds the `help` command. For a mistyped word, Commander's own command would show the whole program's help. */
function addHelp(program: CliCommand): void {
  addVerb(program, 'help', ['holdfast help lock run'])
    .description('print the help for a command')
    .argument('[words...]', 'the command')
    .action(async (words: string[]) => {
      let command: Command = program
      for (const word of words) {
        if (command.commands.length === 0) break
        const inner = command.commands.find((one) => isNamed(one, word))
        // The parser reports the unknown word, with a suggestion.
        if (!inner) return void (await command.parseAsync([word], { from: 'user' }))
        command = inner
      }
      command.outputHelp()
    })
}

function packageVersion(): string {
  return JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')).version
}

const exitCodes = `
Exit codes:
  0  done
  1  failed
  2  the command line is invalid
  3  the condition is not met, for example with migrate --check
  4  the database cannot be reached, or refuses the login`
