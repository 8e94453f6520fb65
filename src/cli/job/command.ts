import { addNoun, addVerb, type CliCommand, runs } from '../command.js'
import { EnvOption } from '../options.js'

export function addJob(program: CliCommand): void {
  const job = addNoun(
    program,
    'job',
    'list, show, watch, count, add, update, import, export, retry, cancel and discard jobs, and send events to jobs',
    ['holdfast job ls', 'holdfast job show 42', 'holdfast job retry --state failed --kind send-email --since 1h'],
  )
  addSearch(
    addVerb(job, 'ls', [
      'holdfast job ls',
      'holdfast job ls --queue mail --state failed --since 1h',
      "holdfast job ls --error 'upstream said 503'",
      'holdfast job ls --limit 500 --jsonl',
    ])
      .summary('list jobs')
      .description(
        'Lists running jobs, then failed jobs (newest first), ready jobs in queue order, waiting jobs (next due first), and the other ' +
          'ended jobs (newest first). Covers all namespaces, unless --namespace is given. Filters other than --queue and --state read ' +
          'the jobs one after another, for at most 10 s. If not all jobs were read, the command prints a note.',
      ),
    'list',
  )
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

  addVerb(job, 'watch', ['holdfast job watch 42', 'holdfast job watch 42 --jsonl'])
    .summary('print a job after each change')
    .description(
      "Prints a job's state and progress after each change, until the job has ended. With --jsonl, prints the whole job.",
    )
    .argument('<id>', 'ID of the job')
    .action(runs(async () => (await import('./watch.js')).jobWatch))

  addVerb(job, 'stats', ['holdfast job stats', 'holdfast job stats --since 24h', 'holdfast job stats --by queue'])
    .summary('show rates, failures and run times')
    .description(
      'Shows, for each kind or queue, how many jobs are done, how many attempts failed, how many jobs failed permanently, and how long jobs ' +
        'ran and waited. If a worker dies, the attempts of all jobs that it had claimed count as failed. The kinds with the most failed jobs come first. Covers all namespaces, unless --namespace is given.',
    )
    .addOption(
      new EnvOption('--by <group>', 'one row for each kind or each queue (default: kind)').oneOf('kind', 'queue'),
    )
    .envOption('--since <duration>', 'how far to look back, at most 2d (default: 1h)')
    .envOption('--queue <name>', 'count only jobs in this queue')
    .envOption('--kind <name>', 'count only jobs of this kind')
    .action(runs(async () => (await import('./stats.js')).jobStats))

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
    .envOption('--start-by <moment>', 'time after which the job expires if no worker has claimed it')
    .envOption('--priority <number>', 'priority from -5 to 5; jobs with a larger number run first (default: 0)')
    .action(runs(async () => (await import('./add.js')).jobAdd))

  addVerb(job, 'send', [
    'holdfast job send 42 approved',
    `holdfast job send 42 approved '{"by": "ada"}' --idempotency-key request:7`,
  ])
    .summary('send an event to a job')
    .description(
      'Sends an event, which the handler of the job receives from job.event. If the job is waiting for this event, the job continues. Otherwise, the ' +
        'event is kept until the handler calls job.event for it. The data is JSON, or - to read JSON from stdin.',
    )
    .argument('<id>', 'ID of the job')
    .argument('<event>', 'name of the event')
    .argument('[json]', 'data of the event as JSON, or - to read stdin (default: null)')
    .envOption('--idempotency-key <key>', 'a second event with the same name and key is ignored')
    .action(runs(async () => (await import('./send.js')).jobSend))

  addVerb(job, 'update', [
    'holdfast job update 42 --priority 5',
    `holdfast job update 42 '{"to": "bob@example.com"}' --run-at 2030-01-31T18:00Z`,
  ])
    .summary('change a job that is not running')
    .description(
      'Changes a job that is waiting or ready: its input, its earliest start, its deadline or its priority. A new input must match the ' +
        'JSON schema of the kind, if a worker has registered one. After a change of the input, earlier failed attempts no longer count.',
    )
    .argument('<id>', 'ID of the job')
    .argument('[json]', 'new input as JSON, or - to read stdin')
    .envOption('--run-at <moment>', 'new earliest start time, such as 2030-01-31T18:00Z')
    .envOption('--start-by <moment>', 'time after which the job expires if no worker has claimed it')
    .envOption('--priority <number>', 'new priority from -5 to 5')
    .action(runs(async () => (await import('./update.js')).jobUpdate))

  addSearch(
    addVerb(job, 'export', [
      'holdfast job export --format jsonl --since 24h > jobs.jsonl',
      'holdfast job export --queue mail --state failed',
    ])
      .summary('print ended jobs completely, one JSON object per line')
      .description(
        'Prints ended jobs with their input, result, error, log and failures, one JSON object per line. Run this command before the retention time ' +
          'has passed. Failed jobs come first. Within each state, the newest jobs come first. The filters are the same as for job ls.',
      ),
    'export',
  )
    .addOption(new EnvOption('--format <format>', 'output format (default: jsonl)').oneOf('jsonl'))
    .action(runs(async () => (await import('./export.js')).jobExport))

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

  addSearch(
    addVerb(job, 'retry', [
      'holdfast job retry 42',
      'holdfast job retry 42 43',
      'holdfast job retry --state failed --kind send-email --since 1h',
    ])
      .summary('let jobs run again')
      .description(
        'Lets cancelled, expired, discarded and failed jobs run again, and lets waiting jobs run now. With a search instead of IDs, retries all jobs ' +
          'that the search finds. If the search contains no state, the command retries failed and retrying jobs. The command shows how many jobs ' +
          'were found before it asks for confirmation. If the command is interrupted, run it again to continue.',
      )
      .argument('[id...]', 'IDs of the jobs'),
    'retry',
  )
    .yesOption()
    .action(runs(async () => (await import('./act.js')).actOnFound('retry')))

  addSearch(
    addVerb(job, 'cancel', [
      'holdfast job cancel 42',
      "holdfast job cancel 42 43 --reason 'the order was withdrawn'",
      'holdfast job cancel --kind send-email --state scheduled',
    ])
      .summary('cancel jobs')
      .description(
        'Cancels jobs. A waiting job ends immediately. A running job is notified through its signal, and ends when its handler finishes. ' +
          'With a search instead of IDs, cancels all jobs that the search finds and that have not ended.',
      )
      .argument('[id...]', 'IDs of the jobs'),
    'cancel',
  )
    .envOption('--reason <text>', 'reason that is recorded and passed to the handler')
    .yesOption()
    .action(runs(async () => (await import('./act.js')).actOnFound('cancel')))

  addSearch(
    addVerb(job, 'discard', ['holdfast job discard 42', 'holdfast job discard --kind send-email --until 7d'])
      .summary('discard failed jobs')
      .description(
        'Moves failed jobs to the state discarded, so that they no longer count as failed. The history keeps the jobs. With a search instead ' +
          'of IDs, discards all failed jobs that the search finds.',
      )
      .argument('[id...]', 'IDs of the jobs'),
    'discard',
  )
    .yesOption()
    .action(runs(async () => (await import('./act.js')).actOnFound('discard')))
}

/** Adds the options that select jobs. */
function addSearch(verb: CliCommand, word: string): CliCommand {
  return verb
    .envOption('--queue <name>', `${word} only jobs in this queue`)
    .stateOption(
      'jobs',
      'running',
      'ready',
      'scheduled',
      'retrying',
      'in-lane',
      'in-budget',
      'blocked',
      'waiting',
      'failed',
      'done',
      'cancelled',
      'expired',
      'discarded',
    )
    .envOption('--kind <name>', `${word} only jobs of this kind`)
    .envOption('--error <text>', `${word} only jobs whose last error contains this text`)
    .envOption(
      '--since <time>',
      `${word} only jobs whose state changed after this time, such as 1h or 2030-01-31T18:00Z`,
    )
    .envOption('--until <time>', `${word} only jobs whose state changed before this time`)
    .envOption('--search <text>', `${word} only jobs that match this search, such as 'input.user:42 lane:shop-7'`)
}
