import { readFileSync } from 'node:fs'
import { Command } from 'commander'
import { addBench } from './bench/command.js'
import { withExamples } from './command.js'
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
import { addMigrate } from './migrate/command.js'
import { EnvOption } from './options.js'
import { addQueue } from './queue/command.js'
import { addSchedule } from './schedule/command.js'
import { addTop } from './top/command.js'
import { addWork } from './work/command.js'

/**
 * The words of the command line. What a command does is imported when it runs, so that `--help` is fast.
 *
 * Options that speak of the database and of the output belong to the program, and may stand before or after a verb.
 */
export function makeProgram(): Command {
  const program = new Command('holdfast')
    .description('Makes a fleet of processes act as one, with nothing but PostgreSQL.')
    .version(packageVersion(), '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .helpCommand(false)
    .configureHelp({ showGlobalOptions: true, sortSubcommands: false })
    .configureOutput({ outputError: () => {} })
    .exitOverride()
  for (const option of globalOptions()) program.addOption(option)
  withExamples(program, [
    'holdfast lock run nightly-report -- node report.js',
    'holdfast lock ls',
    'holdfast lease ls',
    'holdfast work jobs.js',
    'holdfast job ls --state buried',
    'holdfast schedule next "0 3 * * *"',
    'holdfast graph',
    'holdfast top',
    'holdfast migrate --dry-run',
    'holdfast doctor',
  ])
  addLock(program)
  addLease(program)
  addLimit(program)
  addDelivery(program)
  addWork(program)
  addJob(program)
  addQueue(program)
  addSchedule(program)
  addInstance(program)
  addGraph(program)
  addTop(program)
  addDashboard(program)
  addMigrate(program)
  addDoctor(program)
  addDemo(program)
  addDev(program)
  addBench(program)
  addCompletion(program)
  addHelp(program)
  program.addHelpText('after', exitCodes)
  return program
}

/** The library has such a command, too, but it shows the help of everything to who mistypes a word. */
function addHelp(program: Command): void {
  const help = program
    .command('help')
    .description('print the help of a command')
    .argument('[words...]', 'the command')
    .action(async (words: string[]) => {
      let command = program
      for (const word of words) {
        if (command.commands.length === 0) break
        const inner = command.commands.find((one) => one.name() === word)
        // It knows how to complain, and what may have been meant.
        if (!inner) return void (await command.parseAsync([word], { from: 'user' }))
        command = inner
      }
      command.outputHelp()
    })
  withExamples(help, ['holdfast help lock run'])
}

function globalOptions(): EnvOption[] {
  return [
    new EnvOption('--url <url>', 'the database; PG* variables are understood, too', 'DATABASE_URL'),
    new EnvOption('--direct-url <url>', 'the same database past a pooler, for locks'),
    new EnvOption('--namespace <name>', 'whose names are meant (default: "default")'),
    new EnvOption('--schema <name>', 'where Holdfast keeps its tables (default: "holdfast")'),
    new EnvOption('--expiry <duration>', 'how long a frozen process keeps its locks (default: 10s)'),
    new EnvOption('--json', 'one JSON document on stdout'),
    new EnvOption('--jsonl', 'one JSON document a line'),
    new EnvOption('--no-color', 'no colour', 'NO_COLOR'),
  ]
}

function packageVersion(): string {
  return JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')).version
}

const exitCodes = `
Exit codes:
  0  done
  1  failed
  2  the words make no command
  3  the condition is not met, such as with migrate --check
  4  the database cannot be reached, or refuses the login`
