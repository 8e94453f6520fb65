import type { Command } from 'commander'
import { repeated, settingsOf, TwinOption } from '../options.js'
import { withExamples } from '../words.js'

export function addMigrate(program: Command): void {
  const migrate = program
    .command('migrate')
    .summary('bring the schema up to date')
    .description(
      'Brings the schema up to date, and gives roles the rights that they need, and no others. Safe to run from several places at once, and again.',
    )
    .addOption(new TwinOption('--dry-run', 'only list what would be applied'))
    .addOption(new TwinOption('--show-sql', 'only print the SQL that would be applied'))
    .addOption(new TwinOption('--check', 'only list it, and exit with 3 when there is something to apply'))
    .addOption(repeated(new TwinOption('--observer <role>', 'let this role look; may be given several times')))
    .addOption(
      repeated(
        new TwinOption('--application <role>', 'let instances connect as this role; may be given several times'),
      ),
    )
    .addOption(repeated(new TwinOption('--operator <role>', 'let people act as this role; may be given several times')))
    .action(async (_options, self: Command) => (await import('./migrate.js')).migrateSchema(await settingsOf(self)))
  withExamples(migrate, [
    'holdfast migrate',
    'holdfast migrate --check',
    'holdfast migrate --show-sql > holdfast.sql',
    'holdfast migrate --application app --observer grafana --show-sql',
    'holdfast migrate --application app --observer grafana --operator ops',
  ])
}
