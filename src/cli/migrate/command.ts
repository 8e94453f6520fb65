import { addVerb, type CliCommand, runs } from '../command.js'

export function addMigrate(program: CliCommand): void {
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
    .envOption('--dry-run', 'only list what would be applied, but change nothing')
    .envOption('--show-sql', 'only print the SQL that would be applied')
    .envOption('--check', 'only list what would be applied, and exit with status 3 if anything is pending')
    .repeatedOption('--observer <role>', 'grant this role read access')
    .repeatedOption('--application <role>', 'grant this role the rights that an instance needs')
    .repeatedOption('--operator <role>', "grant this role an operator's rights")
    .action(runs(async () => (await import('./migrate.js')).migrateSchema))
}
