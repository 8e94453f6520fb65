import { addVerb, type CliCommand, runs } from '../command.js'

export function addWork(program: CliCommand): void {
  addVerb(program, 'work', [
    'holdfast work jobs.js',
    'holdfast work dist/jobs/*.js --concurrency 50',
    'holdfast work jobs.js --queue mail --queue reports --drain 1m',
    'holdfast work jobs.js --metrics-port 9464',
  ])
    .summary('run the jobs and schedules that files define')
    .description(
      'Runs the jobs and schedules that files define with defineJob and defineSchedule. ' +
        'A file exports its definitions individually, in an array or as the default export. ' +
        'SIGTERM or SIGINT starts a graceful shutdown: no new work starts, and running work is allowed to finish. ' +
        'A second signal ends the process immediately. ' +
        '`holdfast instance drain` starts the same shutdown from another process.',
    )
    .argument('<file...>', 'files to import, relative to the working directory; TypeScript if Node.js supports it')
    .envOption('--concurrency <number>', 'maximum number of jobs to run at the same time (default: 10)')
    .repeatedOption('--queue <name>', "serve this queue instead of the definitions' queues", 'HOLDFAST_QUEUES')
    .envOption('--drain <duration>', 'time allowed for running work to finish after a signal (default: 20s)')
    .envOption('--metrics-port <port>', 'serve /metrics, /health/live and /health/ready on this port of all addresses')
    .action(runs(async () => (await import('./run.js')).work))
}
