import { ruleInWords } from '../../cron/index.js'
import type { ScheduleStatus } from '../../index.js'
import { withHoldfast } from '../connect.js'
import { say } from '../failure.js'
import { inSeconds } from '../moments.js'
import { type Column, printRows } from '../output.js'
import type { Settings } from '../settings.js'

export async function scheduleLs(settings: Settings): Promise<void> {
  const schedules = await withHoldfast(settings, ({ schedules }) => schedules.list())
  printRows<'schedule-ls'>(settings, schedules, columns)
  if (schedules.length === 0) say('There is no schedule in this namespace.')
}

const columns: Column<ScheduleStatus>[] = [
  { title: 'SCHEDULE', value: ({ name }) => name },
  { title: 'RULE', value: ({ rule }) => ruleInWords(rule) },
  {
    title: 'NEXT',
    value: ({ nextAt }) => nextAt ?? null,
    shown: ({ nextAt }) => (nextAt ? inSeconds(nextAt) : '-'),
  },
  {
    title: 'MEMBERS',
    value: ({ members }) => members.length,
    colour: ({ members }) => (members.length === 0 ? 'red' : undefined),
  },
  { title: 'STATE', value: stateOf, colour: () => 'yellow' },
]

/** What is unusual about it, in words; empty when nothing is. */
export function stateOf({ pausedAt, members, override }: ScheduleStatus): string {
  const unusual = { paused: pausedAt, orphan: members.length === 0, overridden: override }
  return Object.entries(unusual)
    .filter(([, is]) => is)
    .map(([word]) => word)
    .join(', ')
}
