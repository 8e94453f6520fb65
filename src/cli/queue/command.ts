import { addNoun, addVerb, type CliCommand, runs, runsAct } from '../command.js'

export function addQueue(program: CliCommand): void {
  const queue = addNoun(program, 'queue', 'list, pause and resume queues', [
    'holdfast queue ls',
    'holdfast queue pause mail',
    'holdfast queue resume mail',
  ])
  addVerb(queue, 'ls', ['holdfast queue ls', 'holdfast queue ls --namespace billing --json'])
    .summary('list the queues')
    .description(
      'Lists the queues with the number of jobs in each state (counted up to 10,000) and the number of workers. ' +
        'Covers all namespaces, unless --namespace is given.',
    )
    .action(runs(async () => (await import('./ls.js')).queueLs))

  addVerb(queue, 'pause', ['holdfast queue pause mail'])
    .summary('pause a queue')
    .description('Pauses a queue: no worker claims its jobs until the queue is resumed. Running jobs continue.')
    .argument('<name>', 'the queue')
    .action(runsAct('pause-queue'))

  addVerb(queue, 'resume', ['holdfast queue resume mail'])
    .summary('resume a paused queue')
    .description('Resumes a paused queue: workers claim its jobs again.')
    .argument('<name>', 'the queue')
    .action(runsAct('resume-queue'))
}
