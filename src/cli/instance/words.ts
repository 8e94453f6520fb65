import type { Command } from 'commander'
import { settingsOf } from '../options.js'
import { noun, withExamples, withoutGlobalOptions } from '../words.js'

export function addInstance(program: Command): void {
  const instance = noun(program, 'instance', 'see the running processes that opened Holdfast')
  withExamples(instance, ['holdfast instance ls'])
  const ls = instance
    .command('ls')
    .summary('list the instances')
    .description('Lists the instances, and what they hold and wait for.')
    .action(async (_options, self: Command) => (await import('./ls.js')).instanceLs(await settingsOf(self)))
  withExamples(ls, ['holdfast instance ls', 'holdfast instance ls --json'])
  withoutGlobalOptions(instance)
}
