import { addNoun, addVerb, type CliCommand, runs, runsAct } from '../command.js'

export function addSchedule(program: CliCommand): void {
  const schedule = addNoun(
    program,
    'schedule',
    "list, show, set, remove, run, pause, resume and override schedules; list a rule's ticks",
    [
      'holdfast schedule ls',
      'holdfast schedule pause invoices',
      'holdfast schedule next "0 3 * * *" --timezone Europe/London',
    ],
  )
  addVerb(schedule, 'ls', ['holdfast schedule ls', 'holdfast schedule ls --namespace billing --json'])
    .summary('list the schedules')
    .description("Lists a namespace's schedules with their rules, next ticks and numbers of instances.")
    .envOption('--search <text>', 'list only schedules whose names contain this text')
    .envOption('--limit <number>', 'maximum number of schedules (default: 1000)')
    .envOption('--after <name>', 'list only schedules after this name, for the next page')
    .action(runs(async () => (await import('./ls.js')).scheduleLs))

  addVerb(schedule, 'show', [
    'holdfast schedule show invoices',
    'holdfast schedule show invoices --skipped',
    'holdfast schedule show invoices --limit 100 --json',
  ])
    .summary('show one schedule')
    .description("Shows a schedule's rule, members and recent runs, and why some ticks did not run.")
    .argument('<name>', 'the schedule')
    .envOption('--skipped', 'list only the ticks that did not run, and why')
    .envOption('--limit <number>', 'maximum number of runs and gaps (default: 10)')
    .action(runs(async () => (await import('./show.js')).scheduleShow))

  addVerb(schedule, 'set', [
    `holdfast schedule set tenant:42:report reports send-report '{"tenant": 42}' --cron "0 8 * * *" --timezone Europe/London`,
    'holdfast schedule set poll default poll-feeds --every 5m --overlap skip',
  ])
    .summary('create or change a stored schedule')
    .description(
      'Creates or changes a schedule that is stored in the database. Each tick enqueues a job. The input is JSON, or - to read JSON from stdin.',
    )
    .argument('<name>', 'the schedule')
    .argument('<queue>', 'queue of the jobs')
    .argument('<kind>', 'kind of the jobs, which is the name of their definition')
    .argument('[json]', 'job input as JSON, or - to read stdin (default: null)')
    .envOption('--cron <cron>', 'a cron expression, in quotes')
    .envOption('--timezone <zone>', 'time zone of the cron expression (default: UTC)')
    .envOption('--every <duration>', 'an interval instead of a cron expression')
    .envOption(
      '--overlap <policy>',
      'while the job of an earlier tick has not ended: allow another job, or skip (default: allow)',
    )
    .envOption('--missed <policy>', 'ticks that were missed: skip, or enqueue a job for the latest (default: skip)')
    .envOption('--priority <number>', 'priority of the jobs, from -5 to 5 (default: 0)')
    .action(runs(async () => (await import('./set.js')).scheduleSet))

  addVerb(schedule, 'rm', ['holdfast schedule rm tenant:42:report'])
    .summary('remove a stored schedule')
    .description('Removes a stored schedule and its history. Jobs that it has already enqueued remain.')
    .argument('<name>', 'the schedule')
    .action(runs(async () => (await import('./rm.js')).scheduleRm))

  addVerb(schedule, 'run', [
    'holdfast schedule run invoices',
    `holdfast schedule run nightly --input '{"day": "2030-01-31"}'`,
  ])
    .summary('request a run now, in addition to the rule')
    .description(
      "Requests a run now, even if the schedule is paused. A member starts the run. The rule's ticks do not change. " +
        'With --input, enqueues the job of the schedule with this input instead, and records no run.',
    )
    .argument('<name>', 'the schedule')
    .envOption('--input <json>', 'input as JSON, or - to read stdin, for a schedule that enqueues a job')
    .action(runs(async () => (await import('./run.js')).scheduleRun))

  addVerb(schedule, 'pause', ['holdfast schedule pause invoices'])
    .summary('pause a schedule')
    .description('Pauses a schedule until it is resumed, even across deployments. A run in progress continues.')
    .argument('<name>', 'the schedule')
    .action(runsAct('pause-schedule'))

  addVerb(schedule, 'resume', ['holdfast schedule resume invoices'])
    .summary('resume a paused schedule')
    .description('Resumes a paused schedule. Ticks that were due during the pause do not run and are recorded as gaps.')
    .argument('<name>', 'the schedule')
    .action(runsAct('resume-schedule'))

  addVerb(schedule, 'override', [
    'holdfast schedule override invoices --every 1h',
    'holdfast schedule override invoices --cron "0 6 * * MON-FRI" --timezone Europe/London',
    'holdfast schedule override invoices --clear',
  ])
    .summary("replace a schedule's rule")
    .description(
      "Replaces the rule that a schedule's code defines, until the override is cleared, even across deployments. " +
        'The previous rule still applies to ticks that are already due.',
    )
    .argument('<name>', 'the schedule')
    .envOption('--cron <cron>', 'a cron expression, in quotes')
    .envOption('--timezone <zone>', 'time zone of the cron expression (default: UTC)')
    .envOption('--every <duration>', 'an interval instead of a cron expression')
    .envOption('--clear', 'clear the override and return to the rule in the code')
    .action(runs(async () => (await import('./override.js')).scheduleOverride))

  addVerb(schedule, 'next', [
    'holdfast schedule next "0 3 * * *" --timezone Europe/London',
    'holdfast schedule next "*/10 2 * * *" --timezone America/New_York --from 2026-03-08T00:00:00Z',
    'holdfast schedule next --every 15m --count 3 --json',
  ])
    .summary("list a rule's next ticks")
    .description(
      'Lists the next ticks of a cron expression or an interval, and the effects of clock changes. Does not need a database.',
    )
    .argument(
      '[cron]',
      'cron expression in quotes: five fields, six fields starting with seconds, or a nickname such as @daily',
    )
    .envOption('--timezone <zone>', 'time zone of the cron expression (default: UTC)')
    .envOption('--every <duration>', 'an interval instead of a cron expression')
    .envOption('--count <number>', 'number of ticks (default: 10)')
    .envOption('--from <moment>', 'list the ticks after this time (default: now)')
    .action(runs(async () => (await import('./next.js')).scheduleNext))
}
