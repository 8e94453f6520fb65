import type { Command } from 'commander'
import { withExamples } from '../command.js'
import { EnvOption, repeated, settingsOf } from '../options.js'

export function addWork(program: Command): void {
  const work = program
    .command('work')
    .summary('run the jobs and schedules that files define')
    .description(
      'Runs jobs and schedules: those whose definitions, made by defineJob and defineSchedule, the files export, alone, in ' +
        'a list or as the default. SIGTERM or SIGINT drains: what runs may come to its end. A second one ends the process ' +
        'at once. `holdfast instance drain` does the same from outside.',
    )
    .argument('<file...>', 'modules, relative to the working directory; TypeScript where Node.js reads it')
    .addOption(new EnvOption('--concurrency <number>', 'how many jobs run at once (default: 10)'))
    .addOption(
      repeated(
        new EnvOption(
          '--queue <name>',
          'serve this queue, not those of the definitions; repeatable',
          'HOLDFAST_QUEUES',
        ),
      ),
    )
    .addOption(new EnvOption('--drain <duration>', 'how long what runs may take after a signal (default: 20s)'))
    .action(async (files: string[], _options, self: Command) =>
      (await import('./run.js')).work(await settingsOf(self), files),
    )
  withExamples(work, [
    'holdfast work jobs.js',
    'holdfast work dist/jobs/*.js --concurrency 50',
    'holdfast work jobs.js --queue mail --queue reports --drain 1m',
  ])
}
