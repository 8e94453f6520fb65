import type { Command } from 'commander'
import { addVerb, runs } from '../command.js'
import { EnvOption, repeated } from '../options.js'

export function addMigrate(program: Command): void {
  addVerb(program, 'migrate', [
    'holdfast migrate',
    'holdfast migrate --check',
    'holdfast migrate --show-sql > holdfast.sql',
    'holdfast migrate --application app --observer grafana --show-sql',
    'holdfast migrate --application app --observer grafana --operator ops',
  ])
    .summary('bring the schema up to date')
    .description(
      'Brings the schema up to date, and grants roles the rights that they need, and no others. Safe to run from several ' +
        'places at the same time, and to run again.',
    )
    .addOption(new EnvOption('--dry-run', 'only list what would be applied'))
    .addOption(new EnvOption('--show-sql', 'only print the SQL that would be applied'))
    .addOption(new EnvOption('--check', 'only list what would be applied, and exit with 3 if there is anything'))
    .addOption(repeated(new EnvOption('--observer <role>', 'let this role read; repeatable')))
    .addOption(repeated(new EnvOption('--application <role>', 'let instances connect as this role; repeatable')))
    .addOption(repeated(new EnvOption('--operator <role>', 'let people act as this role; repeatable')))
    .action(runs(async (settings) => (await import('./migrate.js')).migrateSchema(settings)))
}
