import { setTimeout as delay } from 'node:timers/promises'
import { noSuchJob } from '../../acts/index.js'
import { hasEnded, type LogLine, UsageError } from '../../base/index.js'
import { jobId } from '../act.js'
import { withHoldfast } from '../connect.js'
import { conditionNotMet } from '../failure.js'
import { type Column, printRows, visible, write } from '../output.js'
import type { Settings } from '../settings.js'

const pollEveryMs = 500

export async function jobLogs(settings: Settings, word: string): Promise<void> {
  const id = jobId(word)
  const follows = settings.flag('follow')
  if (follows && settings.flag('json')) {
    throw new UsageError('Expected --follow without --json, got both', 'Use --jsonl, which prints one line at a time.')
  }
  await withHoldfast(settings, async ({ jobs }) => {
    let last: LogLine | undefined
    for (;;) {
      const job = await jobs.find(id)
      if (!job) return conditionNotMet(noSuchJob(id))
      const lines = linesAfter(job.log, last)
      print(settings, lines, follows)
      if (!follows || hasEnded(job.state)) return
      last = lines.at(-1) ?? last
      await delay(pollEveryMs)
    }
  })
}

const columns: Column<LogLine>[] = [
  { title: 'TIME', value: ({ at }) => at },
  { title: 'ATTEMPT', value: ({ attempt }) => attempt },
  { title: 'TEXT', value: ({ text }) => text },
  { title: 'DATA', value: ({ data }) => (data === undefined ? null : JSON.stringify(data)) },
]

function print(settings: Settings, lines: readonly LogLine[], follows: boolean): void {
  const isForPeople = process.stdout.isTTY && !settings.flag('json') && !settings.flag('jsonl')
  if (isForPeople) write(lines.map((line) => visible(logLineText(line))))
  else if (lines.length > 0 || !follows) printRows<'job-logs'>(settings, lines, columns)
}

export function logLineText({ at, attempt, text, data }: LogLine): string {
  const dataText = data === undefined ? '' : ` ${JSON.stringify(data)}`
  return `${at}${attempt > 1 ? ` (attempt ${attempt})` : ''}  ${text}${dataText}`
}

/** Returns the lines after `last`. If the log no longer contains `last`, all its lines are newer. */
function linesAfter(log: readonly LogLine[], last: LogLine | undefined): readonly LogLine[] {
  const at = log.findLastIndex((line) => line.at === last?.at && line.number === last.number)
  return log.slice(at + 1)
}
