import { noSuchJob, times } from '../../acts/index.js'
import { formatDuration } from '../../base/index.js'
import type { FailedAttempt, JobStatus, JobStep } from '../../index.js'
import { instanceLabel } from '../../observe/index.js'
import { searchStateOf } from '../../search/index.js'
import { jobId } from '../act.js'
import { withHoldfast } from '../connect.js'
import { conditionNotMet } from '../failure.js'
import { formatTime } from '../format-time.js'
import { type Fact, printDocument, printFacts } from '../output.js'
import type { Settings } from '../settings.js'
import { logLineText } from './logs.js'

export async function jobShow(settings: Settings, word: string): Promise<void> {
  const id = jobId(word)
  const [status, now] = await withHoldfast(settings, async ({ jobs }, observer) => {
    return [await jobs.find(id), await observer.now()] as const
  })
  if (!printDocument<'job-show'>(settings, status) && status) printFacts(settings, factsOf(status, now))
  if (!status) conditionNotMet(noSuchJob(id))
}

function factsOf(job: JobStatus, now: Date): Fact[] {
  const timeText = (at: Date) => formatTime(at, now)
  const { state, waitsFor, runAt, startBy, claimedAt, endedAt, failed, crashes, cancelling, progress, error } = job
  const facts: (Fact | false | undefined)[] = [
    ['id', String(job.id)],
    ['kind', job.kind],
    ['queue', job.queue],
    ['state', waitsFor ? `${state}: the job is waiting for ${waitsFor.text}` : searchStateOf({ state })],
    runAt && ['runs at', timeText(runAt)],
    startBy && ['start by', timeText(startBy)],
    cancelling !== undefined && ['cancel requested', cancelling],
    job.priority !== 0 && ['priority', String(job.priority)],
    ['enqueued', timeText(job.enqueuedAt)],
    claimedAt && ['claimed', timeText(claimedAt) + byInstance(job)],
    endedAt && ['ended', timeText(endedAt)],
    failed > 0 && ['failed', times(failed)],
    crashes > 0 && ['crashes', `a worker died ${times(crashes)} while it was running the job`],
    progress !== undefined && ['progress', JSON.stringify(progress)],
    ['input', JSON.stringify(job.input)],
    Object.keys(job.meta).length > 0 && ['meta', JSON.stringify(job.meta)],
    job.result !== undefined && ['result', JSON.stringify(job.result)],
    error && ['error', errorText(error)],
    ...job.steps.map((step): Fact => [`step ${step.name}`, stepText(step, timeText)]),
    ...job.failures.map((failure): Fact => {
      return [
        `attempt ${failure.attempt}`,
        `${timeText(new Date(failure.at))}${byInstance(failure)}  ${errorText(failure)}`,
      ]
    }),
    ...stackOf(job.failures.at(-1)).map((line): Fact => ['stack', line]),
    ...job.log.map((line): Fact => ['log', logLineText(line)]),
  ]
  return facts.filter((fact) => fact !== false && fact !== undefined)
}

function stepText(
  { kind, attempt, startedAt, endedAt, until, event }: JobStep,
  timeText: (at: Date) => string,
): string {
  if (endedAt === null) {
    const reason = event === null ? 'sleeps' : `waits for the event "${event}"`
    return `${reason} until ${timeText(new Date(until!))}`
  }
  const took = formatDuration(Date.parse(endedAt) - Date.parse(startedAt))
  return `${kind}, recorded ${timeText(new Date(endedAt))} after ${took} (attempt ${attempt})`
}

function byInstance({ instance, instanceName }: Pick<JobStatus | FailedAttempt, 'instance' | 'instanceName'>): string {
  return instance ? ` by ${instanceLabel({ instance, instanceName: instanceName ?? null })}` : ''
}

function errorText({ name, message, code }: { name: string; message: string; code?: string | undefined }): string {
  return `${name}: ${message}${code ? ` (${code})` : ''}`
}

/** Returns the last failure's stack trace. Earlier stack traces rarely differ, and `--json` prints all of them. */
function stackOf(failure: { stack?: string | undefined } | undefined): string[] {
  const lines = failure?.stack?.split('\n') ?? []
  return lines.filter((line) => /^\s+at /.test(line)).map((line) => line.trim())
}
