import type { Command } from 'commander'
import { settingsOf, TwinOption } from '../options.js'
import { withExamples } from '../words.js'

export function addMigrate(program: Command): void {
  const migrate = program
    .command('migrate')
    .summary('bring the schema up to date')
    .description('Brings the schema up to date. Safe to run from several places at once.')
    .addOption(new TwinOption('--dry-run', 'only list what would be applied'))
    .addOption(new TwinOption('--show-sql', 'only print the SQL that would be applied'))
    .addOption(new TwinOption('--check', 'only list it, and exit with 3 when there is something to apply'))
    .action(async (_options, self: Command) => (await import('./migrate.js')).migrateSchema(await settingsOf(self)))
  withExamples(migrate, ['holdfast migrate', 'holdfast migrate --check', 'holdfast migrate --show-sql > holdfast.sql'])
}
