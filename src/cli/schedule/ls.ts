import { describeRule } from '../../cron/index.js'
import type { ScheduleStatus } from '../../index.js'
import { withHoldfast } from '../connect.js'
import { printMessage } from '../failure.js'
import { formatSeconds } from '../format-time.js'
import { type Column, printRows } from '../output.js'
import type { Settings } from '../settings.js'

export async function scheduleLs(settings: Settings): Promise<void> {
  const page = {
    search: settings.text('search'),
    after: settings.text('after'),
    limit: settings.wholeNumber('limit', 1, 10_000) ?? 1_000,
  }
  const schedules = await withHoldfast(settings, ({ schedules }) => schedules.list(page))
  printRows<'schedule-ls'>(settings, schedules, columns)
  const isFiltered = page.search !== undefined || page.after !== undefined
  if (schedules.length === 0) printMessage(`There are no ${isFiltered ? 'such ' : ''}schedules in this namespace.`)
  if (schedules.length === page.limit)
    printMessage(`Only the first ${page.limit} schedules are shown. Use --limit to show more, or --after to continue.`)
}

const columns: Column<ScheduleStatus>[] = [
  { title: 'SCHEDULE', value: ({ name }) => name },
  { title: 'RULE', value: ({ rule }) => describeRule(rule) },
  {
    title: 'NEXT',
    value: ({ nextAt }) => nextAt ?? null,
    shown: ({ nextAt }) => (nextAt ? formatSeconds(nextAt) : '-'),
  },
  {
    title: 'INSTANCES',
    value: ({ members }) => members.length,
    colour: ({ members, job }) => (members.length === 0 && !job ? 'red' : undefined),
  },
  { title: 'STATE', value: stateText, colour: () => 'yellow' },
]

function stateText({ pausedAt, members, override, job }: ScheduleStatus): string {
  const unusual = { stored: job, paused: pausedAt, orphan: members.length === 0 && !job, overridden: override }
  return Object.entries(unusual)
    .filter(([, is]) => is)
    .map(([word]) => word)
    .join(', ')
}
