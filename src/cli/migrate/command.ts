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
      'Brings the schema up to date, and grants each given role exactly the rights that it needs. ' +
        'It is safe to run this command several times, and from several places at the same time.',
    )
    .addOption(new EnvOption('--dry-run', 'only list what would be applied, but change nothing'))
    .addOption(new EnvOption('--show-sql', 'only print the SQL that would be applied'))
    .addOption(new EnvOption('--check', 'only list what would be applied, and exit with 3 if anything is pending'))
    .addOption(repeated(new EnvOption('--observer <role>', 'grant this role read access; repeatable')))
    .addOption(repeated(new EnvOption('--application <role>', 'grant this role the rights of an instance; repeatable')))
    .addOption(repeated(new EnvOption('--operator <role>', 'grant this role the rights of an operator; repeatable')))
    .action(runs(async (settings) => (await import('./migrate.js')).migrateSchema(settings)))
}
