import type { Command } from 'commander'
import { addNoun, withExamples, withNameArgument, withoutGlobalOptions } from '../command.js'
import { EnvOption, settingsOf } from '../options.js'

export function addLock(program: Command): void {
  const lock = addNoun(program, 'lock', 'run a command under a lock; see, release and break locks')
  withExamples(lock, ['holdfast lock run nightly-report -- node report.js', 'holdfast lock ls'])
  const run = lock
    .command('run')
    .summary('run a command while a name is held')
    .description(
      'Runs a command while a name is held: flock(1) for a fleet. Waits for the name without limit unless told otherwise. ' +
        'The command gets stdin, stdout, stderr and signals, and HOLDFAST_NAME and HOLDFAST_FENCE in its environment. ' +
        'With --tick in the crontab of every host it runs once for each tick of a rule, on one of them, for the tick that ' +
        'is nearest by the clock of the database; HOLDFAST_TICK tells it which.',
    )
    .argument('<name>', 'the name to hold')
    .argument('[command...]', 'after --, the command and its arguments')
    .usage('[options] <name> -- <command...>')
    .addOption(new EnvOption('--wait <duration>', 'wait for the name for at most this long'))
    .addOption(new EnvOption('--no-wait', 'do not wait'))
    .addOption(new EnvOption('--shared', 'hold it together with other shared holders'))
    .addOption(new EnvOption('--lease', 'hold it by lease: works through a transaction pooler'))
    .addOption(new EnvOption('--ttl <duration>', 'how long the lease lasts without a renewal (default: 30s)'))
    .addOption(new EnvOption('--min-hold <duration>', 'minimum time that the leased name stays taken'))
    .addOption(
      new EnvOption(
        '--tick <rule>',
        'run once for each tick of a cron expression, or of an interval; does not wait unless told to',
        // HOLDFAST_TICK is what the command gets.
        'HOLDFAST_TICK_RULE',
      ),
    )
    .addOption(new EnvOption('--timezone <zone>', 'whose local time --tick names (default: UTC)'))
    .addOption(
      new EnvOption(
        '--busy-exit <code>',
        'the exit code when the name is taken (default: 124), or the tick has run (0)',
      ),
    )
    .addOption(new EnvOption('--quiet', 'do not tell that the name is taken, or the tick has run'))
    .addOption(new EnvOption('--kill-after <duration>', 'from SIGTERM to SIGKILL when the lock is lost (default: 5s)'))
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
      const { lockRun } = await import('./run.js')
      await lockRun(await settingsOf(self), name, command)
    })
  withExamples(run, [
    'holdfast lock run nightly-report -- node report.js',
    'holdfast lock run --no-wait --busy-exit 0 sync -- ./sync.sh',
    'holdfast lock run --wait 30s --shared city:london -- psql -f assign.sql',
    'holdfast lock run --lease --no-wait --min-hold 10m report -- node report.js',
    'holdfast lock run --tick "0 3 * * *" --timezone Europe/London nightly-report -- node report.js',
    'holdfast lock run --tick 15m --wait 10m invoices -- ./invoices.sh',
  ])

  const ls = lock
    .command('ls')
    .summary('list who holds and who waits')
    .description('Lists who holds and who waits for locks: in all namespaces, unless one is given.')
    .action(async (_options, self: Command) => (await import('./ls.js')).lockLs(await settingsOf(self)))
  withExamples(ls, ['holdfast lock ls', 'holdfast lock ls --namespace billing --json'])

  const show = withNameArgument(
    lock
      .command('show')
      .summary('tell who holds a name, and who waits for it')
      .description('Tells who holds a name, who waits for it, and since when.'),
  ).action(async (name: string, _options, self: Command) =>
    (await import('./show.js')).lockShow(await settingsOf(self), name),
  )
  withExamples(show, ['holdfast lock show invoice:42', 'holdfast lock show --key 42'])

  const release = withNameArgument(
    lock
      .command('release')
      .summary('ask the holder to let go')
      .description('Asks the holder of a name to let go: the signal of its handle aborts, and it stops when it can.'),
  ).action(async (name: string, _options, self: Command) =>
    (await import('../act.js')).actOnKey(await settingsOf(self), 'release-name', name),
  )
  withExamples(release, ['holdfast lock release invoice:42'])

  const breaking = withNameArgument(
    lock
      .command('break')
      .summary('end the sessions that hold a name')
      .description('Ends the sessions that hold a name, and with each all else that it holds.'),
  )
    .addOption(new EnvOption('--yes', 'do not ask'))
    .action(async (name: string, _options, self: Command) =>
      (await import('../act.js')).actOnKey(await settingsOf(self), 'break-lock', name),
    )
  withExamples(breaking, ['holdfast lock break invoice:42', 'holdfast lock break --yes invoice:42'])
  withoutGlobalOptions(lock)
}

const runExitCodes = `
Exit codes:
  the command's own, or
  123  the lock was lost while the command ran
  0    with --tick, also when the tick has run already
  124  the name is taken, or the wait is over
  125  failed before the command was started
  126  the command cannot be executed
  127  the command was not found
  128+n  ended by signal n`
