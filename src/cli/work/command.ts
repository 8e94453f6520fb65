import type { Command } from 'commander'
import { addVerb, runs } from '../command.js'
import { EnvOption, repeated } from '../options.js'

export function addWork(program: Command): void {
  addVerb(program, 'work', [
    'holdfast work jobs.js',
    'holdfast work dist/jobs/*.js --concurrency 50',
    'holdfast work jobs.js --queue mail --queue reports --drain 1m',
  ])
    .summary('run the jobs and schedules that files define')
    .description(
      'Runs the jobs and schedules that files define with defineJob and defineSchedule. ' +
        'A file exports its definitions individually, in an array or as the default export. ' +
        'SIGTERM or SIGINT starts a graceful shutdown: no new work starts, and running work may finish. ' +
        'A second signal ends the process immediately. ' +
        '`holdfast instance drain` starts the same shutdown from another process.',
    )
    .argument('<file...>', 'files to import, relative to the working directory; TypeScript if Node.js supports it')
    .addOption(new EnvOption('--concurrency <number>', 'maximum number of jobs at the same time (default: 10)'))
    .addOption(
      repeated(
        new EnvOption(
          '--queue <name>',
          'serve this queue instead of the queues of the definitions; repeatable',
          'HOLDFAST_QUEUES',
        ),
      ),
    )
    .addOption(
      new EnvOption('--drain <duration>', 'time allowed for running work to finish after a signal (default: 20s)'),
    )
    .action(runs(async (settings, files: string[]) => (await import('./run.js')).work(settings, files)))
}
