import type { Command } from 'commander'
import { addNoun, addVerb, type CliCommand, runs, runsAct } from '../command.js'
import { settingsOf } from '../options.js'

export function addLock(program: CliCommand): void {
  const lock = addNoun(program, 'lock', 'run a command under a lock; list, show, release and break locks', [
    'holdfast lock run nightly-report -- node report.js',
    'holdfast lock ls',
  ])
  addVerb(lock, 'run', [
    'holdfast lock run nightly-report -- node report.js',
    'holdfast lock run --no-wait --busy-exit 0 sync -- ./sync.sh',
    'holdfast lock run --wait 30s --shared city:london -- psql -f assign.sql',
    'holdfast lock run --lease --no-wait --min-hold 10m report -- node report.js',
    'holdfast lock run --tick "0 3 * * *" --timezone Europe/London nightly-report -- node report.js',
    'holdfast lock run --tick 15m --wait 10m invoices -- ./invoices.sh',
  ])
    .summary('run a command while holding a name')
    .description(
      'Runs a command while holding a name, like flock(1) for a fleet. ' +
        'Waits for the name indefinitely, unless --wait or --no-wait is given. ' +
        'The command inherits stdin, stdout and stderr, receives signals, and has HOLDFAST_NAME and HOLDFAST_FENCE in its environment. ' +
        'If every host has the command with --tick in its crontab, only one host runs the command for each tick. ' +
        "The command runs for the tick that is nearest to the database clock's current time. HOLDFAST_TICK contains that tick.",
    )
    .argument('<name>', 'the name to hold')
    .argument('[command...]', 'command and its arguments, after --')
    .usage('[options] <name> -- <command...>')
    .envOption('--wait <duration>', 'maximum time to wait for the name')
    .envOption('--no-wait', 'do not wait for the name')
    .envOption('--shared', 'hold the name in shared mode, together with other shared holders')
    .envOption('--lease', 'hold the name as a lease, which works through a transaction pooler')
    .envOption('--ttl <duration>', 'time after which the lease expires unless it is renewed (default: 30s)')
    .envOption('--min-hold <duration>', 'minimum time that the lease blocks the name')
    .envOption(
      '--tick <rule>',
      'run once for each tick of a cron expression or an interval; waits only with --wait',
      // The variable's name differs from the option's, because the command receives the tick in HOLDFAST_TICK.
      'HOLDFAST_TICK_RULE',
    )
    .envOption('--timezone <zone>', 'time zone of the cron expression in --tick (default: UTC)')
    .envOption(
      '--busy-exit <code>',
      'exit code if the name is taken (default: 124) or the tick has already run (default: 0)',
    )
    .envOption('--quiet', 'print no message if the name is taken or the tick has already run')
    .envOption('--kill-after <duration>', 'time from SIGTERM to SIGKILL if the lock is lost (default: 5s)')
    .addHelpText('after', runExitCodes)
    .exitOverride((error) => {
      // The command itself may exit with status 2, so a usage error needs a different exit code.
      if (error.exitCode !== 0) error.exitCode = 125
      throw error
    })
    .action(async (name: string, command: string[], _options, self: Command) => {
      if (command.length > 0 && !process.argv.includes('--')) {
        self.error('error: the command must follow --\n(Use: holdfast lock run NAME -- COMMAND …)')
      }
      const { lockRun } = await import('./run.js')
      await lockRun(await settingsOf(self), name, command)
    })

  addVerb(lock, 'ls', ['holdfast lock ls', 'holdfast lock ls --namespace billing --json'])
    .summary('list locks with their holders and waiters')
    .description(
      'Lists locks with their holders, and below each holder its waiters. Covers all namespaces, unless --namespace is given.',
    )
    .action(runs(async () => (await import('./ls.js')).lockLs))

  addVerb(lock, 'show', ['holdfast lock show invoice:42', 'holdfast lock show --key 42'])
    .summary('show who holds a name, and who waits for it')
    .description('Shows who holds a name, who waits for it, and for how long.')
    .argument('<name>', 'the name')
    .keyOption()
    .action(runs(async () => (await import('./show.js')).lockShow))

  addVerb(lock, 'release', ['holdfast lock release invoice:42'])
    .summary('ask the holder to release a name')
    .description(
      "Asks the holder of a name to release it, by aborting its handle's signal. The holder decides when to stop.",
    )
    .argument('<name>', 'the name')
    .keyOption()
    .action(runsAct('release-name'))

  addVerb(lock, 'break', ['holdfast lock break invoice:42', 'holdfast lock break --yes invoice:42'])
    .summary('end the sessions that hold a name')
    .description('Ends the sessions that hold a name. Each session also loses everything else that it holds.')
    .argument('<name>', 'the name')
    .keyOption()
    .yesOption()
    .action(runsAct('break-lock'))
}

const runExitCodes = `
Exit codes:
  the exit code of the command, or
  123  the lock was lost while the command ran
  0    with --tick: another host has already run the tick
  124  the name is taken, or the wait timed out
  125  failed before the command was started
  126  the command cannot be executed
  127  the command was not found
  128+n  signal n ended the command`
