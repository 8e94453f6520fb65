import { didYouMean, formatDuration } from '../base/index.js'
import { describeRule, type RuleOptions, ruleFromOptions } from '../cron/index.js'
import { instanceLabel, type Observer, type ScheduleDetails } from '../observe/index.js'
import {
  type ActContext,
  act,
  type Consequence,
  inapplicable,
  joinSentences,
  type Outcome,
  otherNamespaceText,
} from './act.js'
import { enqueueByHand, enqueueConsequence } from './enqueue.js'
import type { NoParams, ParsedParams } from './params.js'

const needs = { namespace: 'text', name: 'text' } as const
type ScheduleParams = ParsedParams<typeof needs, NoParams>

export const schedules = {
  /**
   * Requests an additional run now. The rule's ticks do not change. With an input, enqueues the schedule's job with this input instead, and
   * requests no run.
   */
  'run-schedule': act({
    needs,
    params: { input: 'json' },
    preview: async (context, { input, ...of }) => {
      if (input === undefined) return previewOf(context, of, (found) => runConsequence(of.name, found))
      const found = await context.observer.schedules.find(of.namespace, of.name)
      if (!found?.job) return previewOf(context, of, () => ({ text: noJob(of.name), applies: false }))
      const { text, ...consequence } = await enqueueConsequence(context, { ...of, ...found.job, input })
      return {
        ...consequence,
        text: consequence.applies ? joinSentences(text, 'No run of the schedule is recorded.') : text,
      }
    },
    run: (context, { input, ...of }) =>
      withSchedule(context, of, async (found) => {
        const { namespace, name } = of
        if (input !== undefined) {
          if (!found.job) return { done: false, text: noJob(name), result: { tick: null } }
          const { result: _, ...outcome } = await enqueueByHand(context, { ...found.job, namespace, input })
          return { ...outcome, result: { tick: null, job: outcome.job } }
        }
        const tick = await context.asMember(namespace, ({ schedules }) => schedules.run(name))
        if (tick === null) {
          const text = `No run of "${name}" was requested, because another run exists and the overlap policy does not allow a second run.`
          return { done: false, text, result: { tick } }
        }
        const by = found.stored
          ? 'Its job is enqueued'
          : found.members.length > 0
            ? 'A member will start the run'
            : 'The run will start when a live instance defines the schedule'
        return { done: true, text: `Requested a run of "${name}" (${tick.toISOString()}). ${by}.`, result: { tick } }
      }),
  }),

  'pause-schedule': act({
    needs,
    preview: (context, of) =>
      previewOf(context, of, (found) => {
        const { pausedAt, nextAt } = found
        if (pausedAt) return { text: `"${of.name}" has been paused since ${timeOf(pausedAt)}.`, applies: false }
        const text = joinSentences(
          `The ticks of "${of.name}" will not run until the schedule is resumed, even after a deployment.`,
          nextAt ? `The next tick would be at ${timeOf(nextAt)}.` : 'The schedule has no further ticks.',
          runningOf(found).length > 0 && 'A run that is in progress continues.',
        )
        return { text }
      }),
    run: (context, of) =>
      withSchedule(context, of, async ({ pausedAt }) => {
        const { namespace, name } = of
        await context.asMember(namespace, ({ schedules }) => schedules.pause(name))
        const text = pausedAt
          ? `"${name}" was already paused.`
          : `Paused "${name}". Its ticks will not run until the schedule is resumed.`
        return { done: true, text, result: { paused: name } }
      }),
  }),

  'resume-schedule': act({
    needs,
    preview: (context, of) =>
      previewOf(context, of, ({ pausedAt, unrecordedTicks }) => {
        if (!pausedAt) return { text: notPaused(of.name), applies: false }
        const gaps =
          unrecordedTicks === 0
            ? 'No tick was due during the pause.'
            : unrecordedTicks === 1
              ? 'The tick that was due during the pause will not run and will be recorded as paused.'
              : `The ${unrecordedTicks} ticks that were due during the pause will not run and will be recorded as paused.`
        return { text: `"${of.name}" follows its rule again. ${gaps}` }
      }),
    run: (context, of) =>
      withSchedule(context, of, async ({ pausedAt }) => {
        const { namespace, name } = of
        if (!pausedAt) return { done: false, text: notPaused(name), result: { resumed: null } }
        await context.asMember(namespace, ({ schedules }) => schedules.resume(name))
        const nextAt = (await context.observer.schedules.find(namespace, name))?.nextAt
        const text = `Resumed "${name}"${nextAt ? `: its next tick is at ${timeOf(nextAt)}` : ''}.`
        return { done: true, text, result: { resumed: name } }
      }),
  }),

  /** Overrides the rule in the code, even after later deployments. Without a rule, removes the override. */
  'override-schedule': act({
    needs,
    params: { cron: 'text', timezone: 'text', everyMs: { number: [1_000, Number.MAX_SAFE_INTEGER] } },
    preview: (context, { namespace, name, ...rule }) =>
      previewOf(context, { namespace, name }, ({ overridden, codeRule }) => {
        const code = describeRule(codeRule)
        if (isRule(rule)) {
          ruleFromOptions('override-schedule', optionsOf(rule))
          const text = `"${name}" will follow the rule ${describeRule(rule)} until the override is cleared, even after a deployment. The rule in the code is ${code}.`
          return { text }
        }
        return { text: clearText(name, overridden, code), applies: overridden }
      }),
    run: (context, { namespace, name, ...rule }) =>
      withSchedule(context, { namespace, name }, ({ overridden }) =>
        context.asMember(namespace, async ({ schedules }) => {
          const isNew = isRule(rule)
          await schedules.override(name, isNew ? optionsOf(rule) : null)
          const after = (await schedules.find(name))!
          const ruleText = describeRule(after.rule)
          const text = isNew
            ? `"${name}" now follows the rule ${ruleText} until the override is cleared, even after a deployment (rule in the code: ${describeRule(after.codeRule)}).`
            : clearText(name, overridden, ruleText)
          const result = { schedule: name, rule: after.rule, overridden: isNew }
          return { done: isNew || overridden, text, result }
        }),
      ),
  }),
}

interface RuleParams {
  readonly cron?: string | undefined
  readonly timezone?: string | undefined
  readonly everyMs?: number | undefined
}

function isRule({ cron, everyMs }: RuleParams): boolean {
  return cron !== undefined || everyMs !== undefined
}

function optionsOf({ everyMs, ...rule }: RuleParams): RuleOptions {
  return { ...rule, every: everyMs }
}

function clearText(name: string, overridden: boolean, code: string): string {
  return overridden
    ? `"${name}" follows the rule in the code again: ${code}.`
    : `"${name}" has no override. Its rule in the code is ${code}.`
}

function noJob(name: string): string {
  return `"${name}" takes no input, because no live instance defines it with a job.`
}

function notPaused(name: string): string {
  return `"${name}" is not paused.`
}

async function withSchedule(
  { observer }: ActContext,
  { namespace, name }: ScheduleParams,
  run: (found: ScheduleDetails) => Promise<Outcome>,
): Promise<Outcome> {
  const found = await observer.schedules.find(namespace, name)
  return found ? run(found) : { done: false, text: await noSuchSchedule(observer, namespace, name) }
}

/** Previews an act on a schedule. By default, the act is possible and not dangerous. `consequenceOf` can override this. */
async function previewOf(
  { observer }: ActContext,
  { namespace, name }: ScheduleParams,
  consequenceOf: (found: ScheduleDetails) => Pick<Consequence, 'text'> & Partial<Consequence>,
): Promise<Consequence> {
  const subject = `schedule ${name}`
  const found = await observer.schedules.find(namespace, name)
  if (!found) return inapplicable(subject, await noSuchSchedule(observer, namespace, name))
  return { subject, applies: true, dangerous: false, ...consequenceOf(found), facts: factsOf(found) }
}

/** Describes the effect of a requested run, based on the current runs and the schedule's overlap policy. */
function runConsequence(name: string, found: ScheduleDetails) {
  const { overlap, members } = found
  if (found.stored) return { text: `Enqueues a job of "${name}" now. The rule's ticks do not change.` }
  const running = runningOf(found)
  const waits = found.runs.some(({ state, attempt }) => state === 'waiting' && attempt === 0)
  const who = running
    .map(({ instance, instanceName }) => (instance ? instanceLabel({ instance, instanceName }) : 'an instance'))
    .join(' and ')
  if (overlap === 'skip' && (running.length > 0 || waits)) {
    const there = running.length > 0 ? `${who} is running it` : 'a run is waiting to start'
    const text = `Nothing will happen: ${there}, and "${name}" does not allow overlapping runs.`
    return { text, applies: false }
  }
  if (overlap === 'queue' && waits) {
    const text = `Nothing will happen: a run of "${name}" is already waiting, and only one run may wait at a time.`
    return { text, applies: false }
  }
  const starter =
    members.length === 0
      ? 'The first instance that defines the schedule'
      : members.length === 1
        ? 'Its only member'
        : `One of its ${members.length} members`
  const orphanText = members.length === 0 && 'No live instance defines the schedule.'
  const rest = "The rule's ticks do not change."
  if (overlap === 'replace' && running.length > 0) {
    const stopText = `Asks ${who} to stop the current run, and records that run as cancelled.`
    return {
      text: joinSentences(stopText, orphanText, `${starter} will start another run now.`, rest),
      dangerous: true,
    }
  }
  const mustWait = overlap === 'queue' && running.length > 0
  const when = mustWait ? ` when the run of ${who} has ended` : members.length > 0 ? ' now' : ''
  return { text: joinSentences(orphanText, `${starter} will start an additional run of "${name}"${when}.`, rest) }
}

function runningOf({ runs }: ScheduleDetails): ScheduleDetails['runs'] {
  return runs.filter(({ state }) => state === 'running')
}

function factsOf(found: ScheduleDetails): (readonly [string, string])[] {
  const { rule, members, nextAt, pausedAt, overlap, runs } = found
  const latest = runs.find(({ endedAt }) => endedAt !== null)
  const facts: (readonly [string, string] | null | undefined)[] = [
    ['Rule', rule ? describeRule(rule) : 'unknown (defined by a newer version)'],
    nextAt && ['Next tick', timeOf(nextAt)],
    pausedAt && ['Paused since', timeOf(pausedAt)],
    ['Members', String(members.length)],
    ['Overlap', overlap],
    ...runningOf(found).map(({ tick, instanceName, instance, startedAt }) => {
      const since = startedAt ? `, since ${timeOf(startedAt)}` : ''
      return ['Runs now', `tick ${timeOf(tick)} on ${instanceName ?? instance}${since}`] as const
    }),
    latest?.startedAt &&
      latest.endedAt && [
        'Last run',
        `${latest.state} in ${formatDuration(latest.endedAt.getTime() - latest.startedAt.getTime())}`,
      ],
  ]
  return facts.filter((fact) => fact != null)
}

function timeOf(at: Date): string {
  return `${at.toISOString().slice(0, 19).replace('T', ' ')} UTC`
}

export async function noSuchSchedule(observer: Observer, namespace: string, name: string): Promise<string> {
  const elsewhere = (await observer.schedules.list({ name })).rows
  const known = (await observer.schedules.list({ namespace })).rows.map((schedule) => schedule.name)
  return joinSentences(
    `There is no schedule "${name}" in the namespace "${namespace}".`,
    otherNamespaceText('schedule', elsewhere) ?? didYouMean(name, known),
  )
}
