import type { Command } from 'commander'
import { addNoun, withExamples, withoutGlobalOptions } from '../command.js'
import { EnvOption, settingsOf } from '../options.js'

export function addSchedule(program: Command): void {
  const schedule = addNoun(program, 'schedule', 'see, run, pause, resume and override schedules; see when rules tick')
  withExamples(schedule, [
    'holdfast schedule ls',
    'holdfast schedule pause invoices',
    'holdfast schedule next "0 3 * * *" --timezone Europe/London',
  ])
  const ls = schedule
    .command('ls')
    .summary('list the schedules')
    .description(
      'Lists the schedules of a namespace: their rules, when each ticks next, and how many instances have it.',
    )
    .action(async (_options, self: Command) => (await import('./ls.js')).scheduleLs(await settingsOf(self)))
  withExamples(ls, ['holdfast schedule ls', 'holdfast schedule ls --namespace billing --json'])

  const show = schedule
    .command('show')
    .summary('tell all about one schedule')
    .description(
      'Tells by which rule a schedule ticks, who has it, what ran lately, and which ticks have no run and why.',
    )
    .argument('<name>', 'the schedule')
    .addOption(new EnvOption('--limit <number>', 'how many runs and gaps (default: 10)'))
    .action(async (name: string, _options, self: Command) =>
      (await import('./show.js')).scheduleShow(await settingsOf(self), name),
    )
  withExamples(show, ['holdfast schedule show invoices', 'holdfast schedule show invoices --limit 100 --json'])

  const run = schedule
    .command('run')
    .summary('ask for a run now, beside the rule')
    .description(
      'Asks for a run now, also of a schedule that is paused. A member begins it; the ticks of the rule stay as they are.',
    )
    .argument('<name>', 'the schedule')
    .action(async (name: string, _options, self: Command) =>
      (await import('../act.js')).actOnName(await settingsOf(self), 'run-schedule', name),
    )
  withExamples(run, ['holdfast schedule run invoices'])

  const pause = schedule
    .command('pause')
    .summary('let no more ticks of a schedule begin')
    .description('Pauses a schedule, whatever is deployed, until it is resumed. What runs goes on.')
    .argument('<name>', 'the schedule')
    .action(async (name: string, _options, self: Command) =>
      (await import('../act.js')).actOnName(await settingsOf(self), 'pause-schedule', name),
    )
  withExamples(pause, ['holdfast schedule pause invoices'])

  const resume = schedule
    .command('resume')
    .summary('let a paused schedule tick again')
    .description('Resumes a paused schedule. The ticks of the time between are recorded as gaps.')
    .argument('<name>', 'the schedule')
    .action(async (name: string, _options, self: Command) =>
      (await import('../act.js')).actOnName(await settingsOf(self), 'resume-schedule', name),
    )
  withExamples(resume, ['holdfast schedule resume invoices'])

  const override = schedule
    .command('override')
    .summary('give a schedule another rule than its code says')
    .description(
      'Gives a schedule another rule than its code says, whatever is deployed, until that is cleared. What is due by the ' +
        'rule of before is settled by it.',
    )
    .argument('<name>', 'the schedule')
    .addOption(new EnvOption('--cron <cron>', 'a cron expression, in quotes'))
    .addOption(new EnvOption('--timezone <zone>', 'whose local time it names (default: UTC)'))
    .addOption(new EnvOption('--every <duration>', 'instead of a cron expression, an interval'))
    .addOption(new EnvOption('--clear', 'by the rule of its code again'))
    .action(async (name: string, _options, self: Command) =>
      (await import('./override.js')).scheduleOverride(await settingsOf(self), name),
    )
  withExamples(override, [
    'holdfast schedule override invoices --every 1h',
    'holdfast schedule override invoices --cron "0 6 * * MON-FRI" --timezone Europe/London',
    'holdfast schedule override invoices --clear',
  ])

  const next = schedule
    .command('next')
    .summary('list the coming ticks of a rule')
    .description(
      'Lists the coming ticks of a cron expression or an interval, and what changes of the clocks do to them. Needs no database.',
    )
    .argument('[cron]', 'five fields, six with seconds in front, or a nickname such as @daily; in quotes')
    .addOption(new EnvOption('--timezone <zone>', 'whose local time it names (default: UTC)'))
    .addOption(new EnvOption('--every <duration>', 'instead of a cron expression, an interval'))
    .addOption(new EnvOption('--count <number>', 'how many ticks (default: 10)'))
    .addOption(new EnvOption('--from <moment>', 'the ticks after this moment (default: now)'))
    .action(async (cron: string | undefined, _options, self: Command) =>
      (await import('./next.js')).scheduleNext(await settingsOf(self), cron),
    )
  withExamples(next, [
    'holdfast schedule next "0 3 * * *" --timezone Europe/London',
    'holdfast schedule next "*/10 2 * * *" --timezone America/New_York --from 2026-03-08T00:00:00Z',
    'holdfast schedule next --every 15m --count 3 --json',
  ])
  withoutGlobalOptions(schedule)
}
