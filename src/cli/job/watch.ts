import { noSuchJob } from '../../acts/index.js'
import type { JobStatus } from '../../index.js'
import { searchStateOf } from '../../search/index.js'
import { jobId } from '../act.js'
import { withHoldfast } from '../connect.js'
import { conditionNotMet } from '../failure.js'
import { formatTime } from '../format-time.js'
import { visible, write } from '../output.js'
import type { Settings } from '../settings.js'

/** Prints a job's state after each change, until the job has ended. */
export async function jobWatch(settings: Settings, word: string): Promise<void> {
  const id = jobId(word)
  await withHoldfast(settings, async ({ jobs }, observer) => {
    let isFound = false
    for await (const status of jobs.watch(id)) {
      isFound = true
      if (settings.flag('json') || settings.flag('jsonl')) write([JSON.stringify(status)])
      else write([visible(lineOf(status, await observer.now()))])
    }
    if (!isFound) conditionNotMet(noSuchJob(id))
  })
}

function lineOf({ state, waitsFor, progress, failed, error, endedAt, claimedAt }: JobStatus, now: Date): string {
  const at = endedAt ?? claimedAt ?? now
  const parts = [
    waitsFor ? `${state}: the job is waiting for ${waitsFor.text}` : searchStateOf({ state }),
    progress !== undefined && `progress ${JSON.stringify(progress)}`,
    failed > 0 && `failed ${failed} ${failed === 1 ? 'time' : 'times'}`,
    error && `${error.name}: ${error.message}`,
  ]
  return `${formatTime(at, now)}  ${parts.filter(Boolean).join(', ')}`
}
