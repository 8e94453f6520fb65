import { formatDuration } from '../base/index.js'
import type { Holdfast } from '../index.js'
import { applicable, batchesOf, type ManyVerb } from '../jobs/index.js'
import { type JobSearch, readJobSearch, searchStateOf } from '../search/index.js'
import { type ActContext, act, formatCount, formatList, inapplicable, joinSentences } from './act.js'

interface ManyJobs {
  readonly verb: ManyVerb
  readonly past: 'retried' | 'cancelled' | 'discarded'
  readonly doing: string
  readonly question: string
  /** Returns the consequences for this number of jobs. */
  effect(jobs: string): string
  run(holdfast: Holdfast, ids: readonly number[], reason: string | undefined): Promise<readonly number[]>
}

/** Limits for a preview: the number of jobs that it counts, and its duration. */
const maxPreviewed = 10_000
const previewMs = 2_500

/**
 * Acts on all jobs that a search finds. An act works in batches. When its time limit passes, the act stops, and its
 * outcome contains the parameters that continue it: the position in the search, and the time when the act began. The
 * act skips jobs whose state changed after this time. Otherwise, a job that fails again immediately would be retried a
 * second time.
 */
export const manyJobs = {
  'retry-jobs': actOnMany({
    verb: 'retry',
    past: 'retried',
    doing: 'retrying many jobs',
    question: 'Let these jobs run again?',
    effect: (jobs) =>
      joinSentences(
        `${jobs} can run immediately. A job that has ended gets a fresh set of attempts.`,
        'Work that a failed attempt has already done may be done again.',
        'A job is not retried if another job has the same unique key.',
      ),
    run: ({ jobs }, ids) => jobs.retryEach(ids),
  }),

  'cancel-jobs': actOnMany({
    verb: 'cancel',
    past: 'cancelled',
    doing: 'cancelling many jobs',
    question: 'Cancel these jobs?',
    effect: (jobs) =>
      joinSentences(
        `${jobs} will not run.`,
        'A running job receives a request to stop, and ends when its handler reacts. Effects so far are not undone.',
        'Jobs that wait for a cancelled job are cancelled as well, unless their option ifFailed prevents this.',
      ),
    run: ({ jobs }, ids, reason) => jobs.cancelEach(ids, reason ?? 'Cancelled'),
  }),

  'discard-jobs': actOnMany({
    verb: 'discard',
    past: 'discarded',
    doing: 'discarding many jobs',
    question: 'Discard these jobs?',
    effect: (jobs) =>
      joinSentences(
        `${jobs} will no longer count as failed. The history keeps the jobs in the state discarded.`,
        'Jobs that wait until a discarded job is retried can run.',
      ),
    run: ({ jobs }, ids) => jobs.discardEach(ids),
  }),
}

function actOnMany({ verb, past, doing, question, effect, run }: ManyJobs) {
  return act({
    needs: { search: 'text' },
    params: { namespace: 'text', after: 'text', before: 'time' },
    consent: { doing, question },

    async preview(context, { search: text, namespace, after }) {
      const subject = 'the found jobs'
      const { search, unable } = applicable(readJobSearch(text), verb)
      if (!search) return inapplicable(subject, `Jobs that are ${unable} cannot be ${past}.`)
      if (after !== undefined) {
        return { subject, text: `Continues to ${verb} the found jobs.`, applies: true, dangerous: true }
      }
      const now = await context.observer.now()
      const { count, isAll, byKind, byState, oldest, newest } = await summarize(context, search, namespace)
      if (count === 0) {
        return inapplicable(
          subject,
          isAll ? `No job can be ${past}.` : 'No job was found in the searched part. Narrow the search.',
        )
      }
      const jobs = isAll ? formatCount(count, 'job') : `At least ${formatCount(count, 'job')}`
      const ago = (at: Date) => `${formatDuration(Math.max(0, now.getTime() - at.getTime()))} ago`
      const facts = [
        ['Kinds', formatCounts(byKind)],
        ['States', formatCounts(byState)],
        ['Oldest change', ago(oldest)],
        ['Newest change', ago(newest)],
      ] as const
      return { subject: isAll ? jobs : subject, text: effect(jobs), applies: true, dangerous: true, facts }
    },

    async run(context, { search: text, namespace, after: start, before }) {
      const { observer, asMember, actor, reason, budgetMs = Number.POSITIVE_INFINITY, onProgress } = context
      const { search, unable } = applicable(readJobSearch(text), verb)
      if (!search) return { done: false, text: `Jobs that are ${unable} cannot be ${past}.`, result: { [past]: [] } }
      const began = before ?? (await observer.now())
      const stopAt = performance.now() + budgetMs
      const changed: number[] = []
      let [found, next] = [0, undefined as string | undefined]
      await asMember(namespace ?? 'default', async (holdfast) => {
        for await (const batch of batchesOf(observer, verb, search, namespace, { began, after: start })) {
          found += batch.ids.length
          if (batch.ids.length > 0) {
            changed.push(...(await run(holdfast, batch.ids, actor === undefined ? reason : `Cancelled by ${actor}`)))
          }
          onProgress?.(`${formatCount(changed.length, 'job')} ${past}`)
          next = batch.next ?? undefined
          if (performance.now() > stopAt) break
        }
      })
      const left = found - changed.length
      const sentences = [
        found === 0 ? `No job was found that can be ${past}.` : `${formatCount(changed.length, 'job')} ${past}.`,
        left > 0 && `${formatCount(left, 'job')} skipped: their state changed, or another job has the same unique key.`,
        next !== undefined && 'The search has not ended. Continue to change the other jobs.',
      ]
      return {
        done: changed.length > 0,
        text: joinSentences(...sentences),
        result: { [past]: changed },
        count: changed.length,
        ...(next === undefined ? {} : { next: { after: next, before: began.toISOString() } }),
      }
    },
  })
}

/** Counts the jobs that a search finds. */
async function summarize({ observer }: ActContext, search: JobSearch, namespace: string | undefined) {
  const [byKind, byState] = [new Map<string, number>(), new Map<string, number>()]
  const stopAt = performance.now() + previewMs
  let [count, oldest, newest, after] = [0, new Date(8.64e15), new Date(-8.64e15), undefined as string | undefined]
  do {
    const page = await observer.jobs.matching(search, { namespace, limit: 1_000, after })
    for (const { kind, state, at } of page.rows) {
      count++
      byKind.set(kind, (byKind.get(kind) ?? 0) + 1)
      const word = searchStateOf({ state, waits: null })
      byState.set(word, (byState.get(word) ?? 0) + 1)
      if (at < oldest) oldest = at
      if (at > newest) newest = at
    }
    after = page.next ?? undefined
  } while (after !== undefined && count < maxPreviewed && performance.now() < stopAt)
  return { count, isAll: after === undefined, byKind, byState, oldest, newest }
}

function formatCounts(counts: ReadonlyMap<string, number>): string {
  const sorted = [...counts].sort(([, a], [, b]) => b - a)
  return formatList(sorted.map(([word, count]) => `${count.toLocaleString('en')} ${word}`))
}
