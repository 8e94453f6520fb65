import type { Command } from 'commander'
import { addNoun, addVerb, runs, yesOption } from '../command.js'
import { EnvOption } from '../options.js'

const states = ['ready', 'running', 'waiting', 'done', 'cancelled', 'discarded', 'buried']

export function addJob(program: Command): void {
  const job = addNoun(program, 'job', 'list, show, add, import, retry and cancel jobs', [
    'holdfast job ls',
    'holdfast job show 42',
    'holdfast job retry 42',
  ])
  addVerb(job, 'ls', [
    'holdfast job ls',
    'holdfast job ls --queue mail --state buried',
    'holdfast job ls --limit 500 --jsonl',
  ])
    .summary('list jobs')
    .description(
      'Lists running jobs, then ready jobs in queue order, then waiting jobs (next due first), then ended jobs (newest first). ' +
        'Covers all namespaces, unless --namespace is given. ' +
        'With --kind, only the first 20,000 jobs of each state are read. ' +
        'With --queue and --state done, only the last 100,000 jobs are read.',
    )
    .addOption(new EnvOption('--queue <name>', 'list only jobs of this queue'))
    .addOption(
      new EnvOption(
        '--state <state>',
        'list only jobs in this state: ready, running, waiting, done, cancelled, discarded or buried',
      ).oneOf(...states),
    )
    .addOption(new EnvOption('--kind <name>', 'list only jobs of this kind'))
    .addOption(new EnvOption('--limit <number>', 'maximum number of jobs (default: 50)'))
    .action(runs(async (settings) => (await import('./ls.js')).jobLs(settings)))

  addVerb(job, 'show', ['holdfast job show 42', 'holdfast job show 42 --json'])
    .summary('show one job')
    .description('Shows the state of a job, why the job is waiting, the errors of its attempts, and its result.')
    .argument('<id>', 'ID of the job')
    .action(runs(async (settings, id: string) => (await import('./show.js')).jobShow(settings, id)))

  addVerb(job, 'add', [
    `holdfast job add mail send-email '{"to": "ada@example.com"}'`,
    'holdfast job add reports make-report --delay 10m --priority 2',
    'jq -c . input.json | holdfast job add default import -',
  ])
    .summary('enqueue a job')
    .description('Enqueues a job of any kind and prints its ID. The input is JSON, or - to read JSON from stdin.')
    .argument('<queue>', 'queue of the job')
    .argument('<kind>', 'kind of the job, which is the name of its definition')
    .argument('[json]', 'input of the job as JSON, or - to read stdin (default: null)')
    .addOption(new EnvOption('--delay <duration>', 'time from now until the earliest start, such as 10m'))
    .addOption(new EnvOption('--run-at <moment>', 'time of the earliest start, such as 2030-01-31T18:00Z'))
    .addOption(
      new EnvOption('--priority <number>', 'priority from -5 to 5; jobs with a larger number run first (default: 0)'),
    )
    .action(
      runs(async (settings, queue: string, kind: string, json: string | undefined) =>
        (await import('./add.js')).jobAdd(settings, queue, kind, json),
      ),
    )

  addVerb(job, 'import', [
    'holdfast job import pg-boss --dry-run',
    'holdfast job import pg-boss',
    'holdfast job import graphile-worker --kind send-email --into mail',
  ])
    .summary('move the pending jobs of another library to Holdfast')
    .description(
      'Moves pending jobs from the tables of pg-boss or graphile-worker in this database. ' +
        'Each job is enqueued in Holdfast and removed from the other library in the same transaction. ' +
        'Therefore no job is lost, and no job runs in both libraries, even while workers of the other library are still running. ' +
        'Prints how many jobs were not moved, and why.',
    )
    .argument('<library>', 'pg-boss or graphile-worker')
    .addOption(
      new EnvOption('--from-schema <name>', 'schema of the other library (default: "pgboss" or "graphile_worker")'),
    )
    .addOption(new EnvOption('--kind <name>', 'move only jobs of this pg-boss queue or graphile-worker task'))
    .addOption(new EnvOption('--into <queue>', 'queue for the imported jobs (default: "default")'))
    .addOption(new EnvOption('--dry-run', 'print what would be done, but change nothing'))
    .addOption(yesOption())
    .action(runs(async (settings, library: string) => (await import('./import.js')).jobImport(settings, library)))

  addVerb(job, 'retry', ['holdfast job retry 42', 'holdfast job retry 42 43 44'])
    .summary('let jobs run again')
    .description('Lets cancelled, discarded and buried jobs run again, and lets waiting jobs run now.')
    .argument('<id...>', 'IDs of the jobs')
    .action(runs(async (settings, ids: string[]) => (await import('../act.js')).actOnJobs(settings, 'retry-job', ids)))

  addVerb(job, 'cancel', ['holdfast job cancel 42', "holdfast job cancel 42 43 --reason 'the order was withdrawn'"])
    .summary('cancel jobs')
    .description(
      'Cancels jobs. A waiting job ends immediately. A running job is notified through its signal, and ends when its handler finishes.',
    )
    .argument('<id...>', 'IDs of the jobs')
    .addOption(new EnvOption('--reason <text>', 'reason that is recorded and passed to the handler'))
    .action(runs(async (settings, ids: string[]) => (await import('../act.js')).actOnJobs(settings, 'cancel-job', ids)))
}
