import type { Command } from 'commander'
import { withExamples } from '../command.js'
import { EnvOption, settingsOf } from '../options.js'

export function addDashboard(program: Command): void {
  const dashboard = program
    .command('dashboard')
    .summary('serve the dashboard to this machine')
    .description(
      'Serves the dashboard until interrupted, and prints its address. It has no auth, so it answers only to this machine; ' +
        'mount it in your own server to show it to others.',
    )
    .addOption(new EnvOption('--port <port>', 'the port (default: 7777; 0 for a free one)'))
    .addOption(new EnvOption('--host <address>', 'the address of this machine to listen on (default: 127.0.0.1)'))
    .addOption(new EnvOption('--read-only', 'only show, and refuse to do anything'))
    .action(async (_options, self: Command) => (await import('./run.js')).runDashboard(await settingsOf(self)))
  withExamples(dashboard, ['holdfast dashboard', 'holdfast dashboard --port 8080 --read-only'])
}
