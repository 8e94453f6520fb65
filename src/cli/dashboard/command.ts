import type { Command } from 'commander'
import { addVerb, runs } from '../command.js'
import { EnvOption } from '../options.js'

export function addDashboard(program: Command): void {
  addVerb(program, 'dashboard', ['holdfast dashboard', 'holdfast dashboard --port 8080 --read-only'])
    .summary('serve the dashboard to this machine')
    .description(
      'Serves the dashboard until interrupted, and prints its address. The dashboard has no authentication, so it responds ' +
        'only to this machine. Mount it in your own server to show it to others.',
    )
    .addOption(new EnvOption('--port <port>', 'the port (default: 7777; 0 for a free port)'))
    .addOption(new EnvOption('--host <address>', 'the address of this machine to listen on (default: 127.0.0.1)'))
    .addOption(new EnvOption('--read-only', 'refuse every action'))
    .action(runs(async (settings) => (await import('./run.js')).runDashboard(settings)))
}
