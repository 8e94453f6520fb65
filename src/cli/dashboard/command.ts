import { addVerb, type CliCommand, runs } from '../command.js'

export function addDashboard(program: CliCommand): void {
  addVerb(program, 'dashboard', [
    'holdfast dashboard',
    'holdfast dashboard --port 8080 --read-only',
    'holdfast dashboard --url eu=postgres://eu.example.com/app --url us=postgres://us.example.com/app',
  ])
    .summary('serve the dashboard on this machine')
    .description(
      'Serves the dashboard until interrupted, and prints its address. ' +
        'The dashboard has no authentication, so it accepts connections only from this machine. ' +
        'To show the dashboard to other people, mount it in your own server.',
    )
    .envOption('--port <port>', 'port to listen on (default: 7777; 0 for any free port)')
    .envOption('--host <address>', 'address on this machine to listen on (default: 127.0.0.1)')
    .envOption(
      '--trace-url <url>',
      'URL of a trace, such as https://traces.example.com/{traceId}; jobs link to their traces',
    )
    .envOption('--read-only', 'reject every action')
    .action(runs(async () => (await import('./run.js')).runDashboard))
}
