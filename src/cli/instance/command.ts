import { addNoun, addVerb, type CliCommand, runs } from '../command.js'

export function addInstance(program: CliCommand): void {
  const instance = addNoun(program, 'instance', 'list, show and drain the processes that use Holdfast', [
    'holdfast instance ls',
    'holdfast instance show worker-3',
    'holdfast instance drain --wait worker-3',
  ])
  addVerb(instance, 'ls', ['holdfast instance ls', 'holdfast instance ls --since 10m', 'holdfast instance ls --json'])
    .summary('list the instances')
    .description(
      'Lists the instances, with the number of names that each instance holds and waits for. Live instances come first.',
    )
    .sinceOption('instances that opened')
    .action(runs(async () => (await import('./ls.js')).instanceLs))

  addVerb(instance, 'show', ['holdfast instance show worker-3', 'holdfast instance show 4f1c09aa52be --json'])
    .summary('show one instance')
    .description("Shows an instance's state, and everything that it holds, waits for or is running.")
    .argument('<name>', 'name or ID of the instance, as shown by `holdfast instance ls`')
    .action(runs(async () => (await import('./show.js')).instanceShow))

  addVerb(instance, 'drain', [
    'holdfast instance drain worker-3',
    'holdfast instance drain --wait --within 5m web-1/4242',
  ])
    .summary('stop an instance from starting new work')
    .description(
      'Drains an instance for a graceful shutdown: the instance starts no new work, and its running work is allowed to finish. ' +
        'At the time limit, the signals of unfinished work abort, and other instances take over this work. ' +
        'A drained instance never starts work again. ' +
        "A drained instance's process keeps running until its own code ends it. `holdfast work` exits.",
    )
    .argument('<name>', 'name or ID of the instance, as shown by `holdfast instance ls`')
    .envOption('--within <duration>', 'time allowed for running work to finish (default: 30s)')
    .envOption('--wait', 'wait until the instance is drained', 'HOLDFAST_WAIT_DRAINED')
    .action(runs(async () => (await import('./drain.js')).instanceDrain))
}
