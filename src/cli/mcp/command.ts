import { addVerb, type CliCommand, runs } from '../command.js'

export function addMcp(program: CliCommand): void {
  addVerb(program, 'mcp', [
    'holdfast mcp',
    'holdfast mcp --namespace billing',
    'holdfast mcp --rights retry-job,resume-queue --actor ada',
  ])
    .summary('serve tools for an AI assistant')
    .description(
      'Serves the Model Context Protocol (MCP) on stdin and stdout, until stdin closes. An MCP client starts this command. ' +
        'The tools show who waits for whom, why a job waits, what failed, and what the doctor finds. ' +
        'The server changes nothing unless --rights permits actions. Each action is recorded in the audit log.',
    )
    .envOption(
      '--rights <rights>',
      'actions to permit: read for none, all, or names separated by commas (default: read)',
    )
    .envOption('--actor <name>', 'name in the audit log for the actions of this server (default: mcp)')
    .envOption('--payloads', 'also show the inputs, results and metas of jobs')
    .action(runs(async () => (await import('./run.js')).runMcp))
}
