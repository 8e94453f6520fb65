import { addNoun, addVerb, type CliCommand, runs } from '../command.js'

export function addJob(program: CliCommand): void {
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
      'Lists running jobs, then ready jobs in queue order, then waiting jobs (next due first), then finished jobs (newest first). ' +
        'Covers all namespaces, unless --namespace is given. ' +
        'With --kind, only the first 20,000 jobs of each state are read. ' +
        'With --queue and --state done, only the last 100,000 jobs are read.',
    )
    .envOption('--queue <name>', 'list only jobs in this queue')
    .stateOption('jobs', 'ready', 'running', 'waiting', 'done', 'cancelled', 'discarded', 'buried')
    .envOption('--kind <name>', 'list only jobs of this kind')
    .envOption('--limit <number>', 'maximum number of jobs (default: 50)')
    .action(runs(async () => (await import('./ls.js')).jobLs))

  addVerb(job, 'show', ['holdfast job show 42', 'holdfast job show 42 --json'])
    .summary('show one job')
    .description("Shows a job's state, why the job is waiting, its attempts' errors, and its result.")
    .argument('<id>', 'ID of the job')
    .action(runs(async () => (await import('./show.js')).jobShow))

  addVerb(job, 'logs', ['holdfast job logs 42', 'holdfast job logs 42 --follow'])
    .summary("print the lines that a job's handler has logged")
    .description('Prints the last 100 lines that the handler has logged with job.log, in all attempts.')
    .argument('<id>', 'ID of the job')
    .envOption('--follow', 'print new lines until the job has ended')
    .action(runs(async () => (await import('./logs.js')).jobLogs))

  addVerb(job, 'add', [
    `holdfast job add mail send-email '{"to": "ada@example.com"}'`,
    'holdfast job add reports make-report --delay 10m --priority 2',
    'jq -c . input.json | holdfast job add default import -',
  ])
    .summary('enqueue a job')
    .description('Enqueues a job of any kind and prints its ID. The input is JSON, or - to read JSON from stdin.')
    .argument('<queue>', 'queue of the job')
    .argument('<kind>', 'kind of the job, which is the name of its definition')
    .argument('[json]', 'job input as JSON, or - to read stdin (default: null)')
    .envOption('--delay <duration>', 'time from now until the earliest start, such as 10m')
    .envOption('--run-at <moment>', 'earliest start time, such as 2030-01-31T18:00Z')
    .envOption('--priority <number>', 'priority from -5 to 5; jobs with a larger number run first (default: 0)')
    .action(runs(async () => (await import('./add.js')).jobAdd))

  addVerb(job, 'import', [
    'holdfast job import pg-boss --dry-run',
    'holdfast job import pg-boss',
    'holdfast job import graphile-worker --kind send-email --into mail',
  ])
    .summary("move another library's pending jobs to Holdfast")
    .description(
      'Moves pending jobs from the tables of pg-boss or graphile-worker in this database. ' +
        'Each job is enqueued in Holdfast and removed from the other library in the same transaction. ' +
        "Therefore no job is lost, and no job runs in both libraries, even while the other library's workers are still running. " +
        'Prints how many jobs were not moved, and why.',
    )
    .argument('<library>', 'pg-boss or graphile-worker')
    .envOption('--from-schema <name>', 'the other library\'s schema (default: "pgboss" or "graphile_worker")')
    .envOption('--kind <name>', 'move only jobs from this pg-boss queue or graphile-worker task')
    .envOption('--into <queue>', 'queue for the imported jobs (default: "default")')
    .envOption('--dry-run', 'print what would be done, but change nothing')
    .yesOption()
    .action(runs(async () => (await import('./import.js')).jobImport))

  addVerb(job, 'retry', ['holdfast job retry 42', 'holdfast job retry 42 43 44'])
    .summary('let jobs run again')
    .description('Lets cancelled, discarded and buried jobs run again, and lets waiting jobs run now.')
    .argument('<id...>', 'IDs of the jobs')
    .action(runs(async () => (await import('../act.js')).actOnJobs('retry-job')))

  addVerb(job, 'cancel', ['holdfast job cancel 42', "holdfast job cancel 42 43 --reason 'the order was withdrawn'"])
    .summary('cancel jobs')
    .description(
      'Cancels jobs. A waiting job ends immediately. A running job is notified through its signal, and ends when its handler finishes.',
    )
    .argument('<id...>', 'IDs of the jobs')
    .envOption('--reason <text>', 'reason that is recorded and passed to the handler')
    .action(runs(async () => (await import('../act.js')).actOnJobs('cancel-job')))
}
