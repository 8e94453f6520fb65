import type { JobStatus, Jobs } from '../../index.js'
import { withHoldfast } from '../connect.js'
import { Exit, exitCode, say } from '../failure.js'
import { printDocument } from '../output.js'
import type { Settings } from '../settings.js'
import { jobId, noSuchJob } from './show.js'

/** Lets jobs run again, or at once. */
export async function jobRetry(settings: Settings, words: readonly string[]): Promise<void> {
  const print = (retried: number[]) => printDocument<'job-retry'>(settings, { retried })
  await forEach(settings, words, print, async (jobs, id) => {
    if (await jobs.retry(id)) {
      say(`Job ${id} may run now.`)
      return true
    }
    const status = await jobs.find(id)
    if (!status) say(noSuchJob(id))
    else if (isAlready(status)) say(`Job ${id} is ${status.state} already.`)
    else say(`Job ${id} was not retried: another job of kind ${status.kind} has its unique key.`)
    return false
  })
}

/** Whether a retry has nothing to do: all else may be brought back, unless another job has its unique key. */
function isAlready({ state }: JobStatus): boolean {
  return state === 'ready' || state === 'running' || state === 'waiting' || state === 'done'
}

/** Cancels jobs: those that wait end here, those that run are told. */
export async function jobCancel(settings: Settings, words: readonly string[]): Promise<void> {
  const reason = settings.text('reason')
  const print = (cancelled: number[]) => printDocument<'job-cancel'>(settings, { cancelled })
  await forEach(settings, words, print, async (jobs, id) => {
    const cancelled = await jobs.cancel(id, reason)
    const status = await jobs.find(id)
    if (!status) say(noSuchJob(id))
    else if (!cancelled) say(`Job ${id} is ${status.state} already.`)
    else if (status.cancelling === undefined) say(`Cancelled job ${id}.`)
    else say(`Job ${id} runs, and was told to stop: it ends when its handler does.`)
    return cancelled
  })
}

/** One after the other; a mistake in one id is found before anything is done. */
async function forEach(
  settings: Settings,
  words: readonly string[],
  print: (ids: number[]) => void,
  act: (jobs: Jobs, id: number) => Promise<boolean>,
): Promise<void> {
  const ids = [...new Set(words.map(jobId))]
  const acted: number[] = []
  await withHoldfast(settings, async ({ jobs }) => {
    for (const id of ids) if (await act(jobs, id)) acted.push(id)
  })
  print(acted)
  if (acted.length < ids.length) throw new Exit(exitCode.conditionNotMet)
}
