import type { Command } from 'commander'
import { withExamples } from '../command.js'
import { EnvOption, repeated, settingsOf } from '../options.js'

export function addMigrate(program: Command): void {
  const migrate = program
    .command('migrate')
    .summary('bring the schema up to date')
    .description(
      'Brings the schema up to date, and gives roles the rights that they need, and no others. Safe to run from several places at once, and again.',
    )
    .addOption(new EnvOption('--dry-run', 'only list what would be applied'))
    .addOption(new EnvOption('--show-sql', 'only print the SQL that would be applied'))
    .addOption(new EnvOption('--check', 'only list it, and exit with 3 when there is something to apply'))
    .addOption(repeated(new EnvOption('--observer <role>', 'let this role look; may be given several times')))
    .addOption(
      repeated(new EnvOption('--application <role>', 'let instances connect as this role; may be given several times')),
    )
    .addOption(repeated(new EnvOption('--operator <role>', 'let people act as this role; may be given several times')))
    .action(async (_options, self: Command) => (await import('./migrate.js')).migrateSchema(await settingsOf(self)))
  withExamples(migrate, [
    'holdfast migrate',
    'holdfast migrate --check',
    'holdfast migrate --show-sql > holdfast.sql',
    'holdfast migrate --application app --observer grafana --show-sql',
    'holdfast migrate --application app --observer grafana --operator ops',
  ])
}
