import { addNoun, addVerb, type CliCommand, runs } from '../command.js'

export function addAudit(program: CliCommand): void {
  const audit = addNoun(program, 'audit', 'list who has changed what in the dashboard', [
    'holdfast audit ls --since 1h',
  ])
  addVerb(audit, 'ls', ['holdfast audit ls', 'holdfast audit ls --since 1h', 'holdfast audit ls --limit 500 --jsonl'])
    .summary("list the dashboard's and the MCP server's acts")
    .description(
      'Lists the acts of the dashboard and of the MCP server, latest first, with visitor, reason and outcome. ' +
        'Covers all namespaces. Entries are kept for 90 days. The command line writes no entries.',
    )
    .sinceOption('acts that began')
    .envOption('--limit <number>', 'maximum number of acts (default: 50)')
    .action(runs(async () => (await import('./ls.js')).auditLs))
}
