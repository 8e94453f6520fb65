import type { Command } from 'commander'
import { addNoun, withExamples, withoutGlobalOptions } from '../command.js'
import { EnvOption, settingsOf } from '../options.js'

export function addJob(program: Command): void {
  const job = addNoun(program, 'job', 'see, add, import, retry and cancel jobs')
  withExamples(job, ['holdfast job ls', 'holdfast job show 42', 'holdfast job retry 42'])
  const ls = job
    .command('ls')
    .summary('list jobs')
    .description(
      'Lists jobs: first those that run, then the ready ones in their order, then those that wait, the next due one first, ' +
        'then those that have ended, the newest first. In all namespaces, unless one is given. It reads little of a large ' +
        'queue: for a kind, the first 20,000 of each state; for those that are done in one queue, the last 100,000.',
    )
    .addOption(new EnvOption('--queue <name>', 'only those of this queue'))
    .addOption(
      new EnvOption('--state <state>', 'ready, running, waiting, done, cancelled, discarded or buried').oneOf(
        'ready',
        'running',
        'waiting',
        'done',
        'cancelled',
        'discarded',
        'buried',
      ),
    )
    .addOption(new EnvOption('--kind <name>', 'only those of this definition'))
    .addOption(new EnvOption('--limit <number>', 'how many at most (default: 50)'))
    .action(async (_options, self: Command) => (await import('./ls.js')).jobLs(await settingsOf(self)))
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
      (await import('./show.js')).jobShow(await settingsOf(self), id),
    )
  withExamples(show, ['holdfast job show 42', 'holdfast job show 42 --json'])

  const add = job
    .command('add')
    .summary('enqueue a job')
    .description('Enqueues a job of any kind, and prints its id. Its input is JSON; - reads it from stdin.')
    .argument('<queue>', 'where it waits')
    .argument('<kind>', 'the name of its definition')
    .argument('[json]', 'its input, or - (default: null)')
    .addOption(new EnvOption('--delay <duration>', 'not before so long from now'))
    .addOption(new EnvOption('--run-at <moment>', 'not before this moment, such as 2030-01-31T18:00Z'))
    .addOption(new EnvOption('--priority <number>', 'larger goes first, from -5 to 5 (default: 0)'))
    .action(async (queue: string, kind: string, json: string | undefined, _options, self: Command) =>
      (await import('./add.js')).jobAdd(await settingsOf(self), queue, kind, json),
    )
  withExamples(add, [
    `holdfast job add mail send-email '{"to": "ada@example.com"}'`,
    'holdfast job add reports make-report --delay 10m --priority 2',
    'jq -c . input.json | holdfast job add default import -',
  ])

  const moved = job
    .command('import')
    .summary('move the pending jobs of another library here')
    .description(
      'Moves the jobs that wait in the tables of pg-boss or graphile-worker in this database. A job is enqueued here and removed ' +
        'there in one transaction, so none is lost and none runs on both sides, also while workers still run there. Tells how ' +
        'many stay, and why.',
    )
    .argument('<library>', 'pg-boss or graphile-worker')
    .addOption(new EnvOption('--from-schema <name>', 'where its tables are (default: "pgboss", "graphile_worker")'))
    .addOption(new EnvOption('--kind <name>', 'only those of this queue of pg-boss, or task of graphile-worker'))
    .addOption(new EnvOption('--into <queue>', 'the queue in which they wait here (default: "default")'))
    .addOption(new EnvOption('--dry-run', 'only say what would be done'))
    .addOption(new EnvOption('--yes', 'do not ask'))
    .action(async (library: string, _options, self: Command) =>
      (await import('./import.js')).jobImport(await settingsOf(self), library),
    )
  withExamples(moved, [
    'holdfast job import pg-boss --dry-run',
    'holdfast job import pg-boss',
    'holdfast job import graphile-worker --kind send-email --into mail',
  ])

  const retry = job
    .command('retry')
    .summary('let jobs run again')
    .description('Lets jobs run again that have ended otherwise than done, or at once, if they wait.')
    .argument('<id...>', 'the ids of the jobs')
    .action(async (ids: string[], _options, self: Command) =>
      (await import('../act.js')).actOnJobs(await settingsOf(self), 'retry-job', ids),
    )
  withExamples(retry, ['holdfast job retry 42', 'holdfast job retry 42 43 44'])

  const cancel = job
    .command('cancel')
    .summary('cancel jobs')
    .description(
      'Cancels jobs. One that waits ends here; one that runs is told by its signal, and ends when its handler does.',
    )
    .argument('<id...>', 'the ids of the jobs')
    .addOption(new EnvOption('--reason <text>', 'what is recorded, and what the handler is told'))
    .action(async (ids: string[], _options, self: Command) =>
      (await import('../act.js')).actOnJobs(await settingsOf(self), 'cancel-job', ids),
    )
  withExamples(cancel, ['holdfast job cancel 42', "holdfast job cancel 42 43 --reason 'the order was withdrawn'"])
  withoutGlobalOptions(job)
}
