import { UsageError } from '../../base/index.js'
import { ruleFromOptions } from '../../cron/index.js'
import type { UpcomingTick } from '../documents.js'
import { printMessage } from '../failure.js'
import { formatSeconds } from '../format-time.js'
import { type Column, pipedColumns, plainColumns, printRows } from '../output.js'
import type { Settings } from '../settings.js'

/** Computes a rule's next ticks without using a database. */
export function scheduleNext(settings: Settings, cron: string | undefined): void {
  const every = settings.durationMs('every', 1_000)
  if ((cron === undefined) === (every === undefined)) {
    throw new UsageError(
      `Expected a cron expression or --every, got ${cron === undefined ? 'neither' : 'both'}`,
      'For example: holdfast schedule next "0 3 * * *" --timezone Europe/London',
    )
  }
  const timezone = settings.text('timezone')
  const rule = ruleFromOptions('schedule next', { cron, every, timezone })
  const ticks: UpcomingTick[] = []
  let tick = rule.next(settings.time('from') ?? new Date())
  for (let left = settings.wholeNumber('count', 1, 1_000) ?? 10; tick && left > 0; left--) {
    const { time, offset, note } = rule.local(tick)
    ticks.push({ at: tick, local: time, offset, timezone: timezone ?? 'UTC', note })
    tick = rule.next(tick)
  }
  printRows<'schedule-next'>(settings, ticks, columns)
  if (ticks.length === 0) printMessage('The rule has no more ticks.')
}

const columns: Column<UpcomingTick>[] = [
  ...plainColumns<UpcomingTick>({ 'LOCAL TIME': 'local', OFFSET: 'offset' }),
  ...pipedColumns<UpcomingTick>({ ZONE: 'timezone' }),
  { title: 'UTC', value: ({ at }) => at, shown: ({ at }) => formatSeconds(at) },
  { title: 'NOTE', value: ({ note }) => note, shown: ({ note }) => note ?? '', colour: () => 'yellow' },
]
