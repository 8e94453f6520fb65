import type { Command } from 'commander'
import { addNoun, withExamples, withoutGlobalOptions } from '../command.js'
import { EnvOption, settingsOf } from '../options.js'

export function addQueue(program: Command): void {
  const queue = addNoun(program, 'queue', 'see, pause and resume queues; bring buried jobs back')
  withExamples(queue, ['holdfast queue ls', 'holdfast queue pause mail', 'holdfast queue redrive mail'])
  const ls = queue
    .command('ls')
    .summary('list the queues')
    .description(
      'Lists the queues: how many of their jobs are where, counted up to 10,000, and how many workers serve them. In all ' +
        'namespaces, unless one is given.',
    )
    .action(async (_options, self: Command) => (await import('./ls.js')).queueLs(await settingsOf(self)))
  withExamples(ls, ['holdfast queue ls', 'holdfast queue ls --namespace billing --json'])

  const pause = queue
    .command('pause')
    .summary('let no more jobs of a queue begin')
    .description('Pauses a queue: none of its jobs is claimed, by anybody, until it is resumed. Those that run go on.')
    .argument('<name>', 'the queue')
    .action(async (name: string, _options, self: Command) =>
      (await import('../act.js')).actOnName(await settingsOf(self), 'pause-queue', name),
    )
  withExamples(pause, ['holdfast queue pause mail'])

  const resume = queue
    .command('resume')
    .summary('let the jobs of a paused queue begin again')
    .description('Resumes a paused queue: its jobs are claimed again.')
    .argument('<name>', 'the queue')
    .action(async (name: string, _options, self: Command) =>
      (await import('../act.js')).actOnName(await settingsOf(self), 'resume-queue', name),
    )
  withExamples(resume, ['holdfast queue resume mail'])

  const redrive = queue
    .command('redrive')
    .summary('let the buried jobs of a queue run again')
    .description('Lets all buried jobs of a queue run again, with all their attempts before them.')
    .argument('<name>', 'the queue')
    .addOption(new EnvOption('--yes', 'do not ask'))
    .action(async (name: string, _options, self: Command) =>
      (await import('../act.js')).actOnName(await settingsOf(self), 'redrive-queue', name),
    )
  withExamples(redrive, ['holdfast queue redrive mail', 'holdfast queue redrive --yes mail'])
  withoutGlobalOptions(queue)
}
