import { formatDuration, type JobState, jobStates } from '../base/index.js'
import type { Holdfast } from '../index.js'
import { type JobSearch, type JobWait, readJobSearch, searchStateOf } from '../search/index.js'
import { type ActContext, act, formatCount, formatList, inapplicable, joinSentences } from './act.js'

interface ManyJobs {
  readonly verb: 'retry' | 'cancel' | 'discard'
  readonly past: 'retried' | 'cancelled' | 'discarded'
  readonly doing: string
  readonly question: string
  /** States of the jobs that the act can change. */
  readonly states: readonly JobState[]
  /** Jobs that the act changes if the search names neither states nor IDs. */
  readonly usual: { readonly states: readonly JobState[]; readonly waits: readonly JobWait[] }
  readonly batchSize: number
  /** Returns the consequences for this number of jobs. */
  effect(jobs: string): string
  run(holdfast: Holdfast, ids: readonly number[], reason: string | undefined): Promise<readonly number[]>
}

/** The number of jobs that a preview counts, and its time limit. */
const maxPreviewed = 10_000
const previewMs = 2_500

/**
 * Acts on all jobs that a search finds. An act works in batches. When its time limit passes, the act stops, and its outcome
 * contains the parameters that continue it: the place in the search, and the time when the act began. The act leaves
 * jobs alone that changed after this time. Otherwise, a job that fails again immediately would be retried again.
 */
export const manyJobs = {
  'retry-jobs': actOnMany({
    verb: 'retry',
    past: 'retried',
    doing: 'retrying many jobs',
    question: 'Let these jobs run again?',
    states: ['waiting', 'cancelled', 'discarded', 'buried'],
    usual: { states: ['waiting', 'buried'], waits: ['attempt'] },
    batchSize: 500,
    effect: (jobs) =>
      joinSentences(
        `${jobs} can run immediately. A job that has ended gets a fresh set of attempts.`,
        'Work that a failed attempt has already done may be done again.',
        'A job is not retried if another job has the same unique key.',
      ),
    run: ({ jobs }, ids) => jobs.retryMany(ids),
  }),

  'cancel-jobs': actOnMany({
    verb: 'cancel',
    past: 'cancelled',
    doing: 'cancelling many jobs',
    question: 'Cancel these jobs?',
    states: ['ready', 'running', 'waiting'],
    usual: { states: ['ready', 'running', 'waiting'], waits: [] },
    batchSize: 100,
    effect: (jobs) =>
      joinSentences(
        `${jobs} will not run.`,
        'A running job receives a request to stop, and ends when its handler reacts. Effects so far are not undone.',
        'Jobs that wait for a cancelled job are cancelled as well, unless their option ifFailed prevents this.',
      ),
    run: ({ jobs }, ids, reason) => jobs.cancelMany(ids, reason ?? 'Cancelled'),
  }),

  'discard-jobs': actOnMany({
    verb: 'discard',
    past: 'discarded',
    doing: 'discarding many jobs',
    question: 'Discard these jobs?',
    states: ['buried'],
    usual: { states: ['buried'], waits: [] },
    batchSize: 500,
    effect: (jobs) =>
      joinSentences(
        `${jobs} will no longer count as failed. The history keeps the jobs in the state discarded.`,
        'Jobs that wait for the retry of a discarded job can run.',
      ),
    run: ({ jobs }, ids) => jobs.discardMany(ids),
  }),
}

function actOnMany({ verb, past, doing, question, batchSize, effect, run, ...rules }: ManyJobs) {
  return act({
    needs: { search: 'text' },
    params: { namespace: 'text', after: 'text', before: 'time' },
    consent: { doing, question },

    async preview(context, { search: text, namespace, after }) {
      const subject = 'the found jobs'
      const { search, unable } = applicable(readJobSearch(text), rules)
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
      const { search, unable } = applicable(readJobSearch(text), rules)
      if (!search) return { done: false, text: `Jobs that are ${unable} cannot be ${past}.`, result: { [past]: [] } }
      const began = before ?? (await observer.now())
      const fixed = fixTimes(search, began)
      const stopAt = performance.now() + budgetMs
      const changed: number[] = []
      let [found, after, outOfTime] = [0, start, false]
      await asMember(namespace ?? 'default', async (holdfast) => {
        do {
          const page = await observer.jobs.matching(fixed, { namespace, limit: batchSize, after })
          const ids = page.rows.map(({ id }) => id)
          found += ids.length
          if (ids.length > 0) {
            changed.push(...(await run(holdfast, ids, actor === undefined ? reason : `Cancelled by ${actor}`)))
          }
          onProgress?.(`${formatCount(changed.length, 'job')} ${past}`)
          after = page.next ?? undefined
          outOfTime = performance.now() > stopAt
        } while (after !== undefined && !outOfTime)
      })
      const left = found - changed.length
      const sentences = [
        found === 0 ? `No job was found that can be ${past}.` : `${formatCount(changed.length, 'job')} ${past}.`,
        left > 0 &&
          `${formatCount(left, 'job')} left alone: their state changed, or another job has the same unique key.`,
        after !== undefined && 'The search has not ended. Continue to change the other jobs.',
      ]
      return {
        done: changed.length > 0,
        text: joinSentences(...sentences),
        result: { [past]: changed },
        count: changed.length,
        ...(after === undefined ? {} : { next: { after, before: began.toISOString() } }),
      }
    },
  })
}

type Applicable =
  | { readonly search: JobSearch; readonly unable?: undefined }
  | { readonly search?: undefined; readonly unable: string }

/** Restricts a search to the jobs that an act can change. */
function applicable(search: JobSearch, { states, usual }: Pick<ManyJobs, 'states' | 'usual'>): Applicable {
  const isAnyState = search.states.length === jobStates.length && search.waits.length === 0
  if (isAnyState && search.ids.length === 0) return { search: { ...search, ...usual } }
  const wanted = search.states.filter((state) => states.includes(state))
  if (wanted.length > 0) return { search: { ...search, states: wanted } }
  return { unable: search.states.map((state) => searchStateOf({ state, waits: null })).join(' or ') }
}

/** Replaces relative times, and leaves out jobs that changed after the act began. */
function fixTimes(search: JobSearch, began: Date): JobSearch {
  const [since, until] = [search.since, search.until].map((time) =>
    typeof time === 'number' ? new Date(began.getTime() - time) : (time ?? null),
  )
  return { ...search, since: since!, until: until && until < began ? until : began }
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
