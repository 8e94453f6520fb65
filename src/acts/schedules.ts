import { formatDuration, suggest } from '../base/index.js'
import { describeRule, ruleFromOptions } from '../cron/index.js'
import type { Observer, ScheduleDetails } from '../observe/index.js'
import { type ActContext, act, type Consequence, inapplicable, joinSentences, type Outcome } from './act.js'

const needs = { namespace: 'text', name: 'text' } as const
interface ScheduleParams {
  readonly namespace: string
  readonly name: string
}

export const schedules = {
  /** Requests an additional run now. The ticks of the rule do not change. */
  'run-schedule': act({
    needs,
    preview: (context, of) => previewOf(context, of, (found) => runConsequence(of.name, found)),
    run: (context, of) =>
      withSchedule(context, of, async (found) => {
        const { namespace, name } = of
        const tick = await context.asMember(namespace, ({ schedules }) => schedules.run(name))
        if (tick === null) {
          const text = `No run of "${name}" was requested: another run exists, and the overlap policy allows no more.`
          return { done: false, text, result: { tick } }
        }
        const by =
          found.members.length > 0 ? 'a member starts it' : 'it starts when a live instance defines the schedule'
        return { done: true, text: `Requested a run of "${name}" (${tick.toISOString()}): ${by}.`, result: { tick } }
      }),
  }),

  'pause-schedule': act({
    needs,
    preview: (context, of) =>
      previewOf(context, of, (found) => {
        const { pausedAt, nextAt } = found
        if (pausedAt) return { text: `"${of.name}" has been paused since ${timeOf(pausedAt)}.`, applies: false }
        const text = joinSentences(
          `No tick of "${of.name}" starts until the schedule is resumed, even after a deployment.`,
          nextAt ? `The next tick would be at ${timeOf(nextAt)}.` : 'The schedule has no further ticks.',
          runningOf(found).length > 0 && 'A run that has started continues.',
        )
        return { text }
      }),
    run: (context, of) =>
      withSchedule(context, of, async ({ pausedAt }) => {
        const { namespace, name } = of
        await context.asMember(namespace, ({ schedules }) => schedules.pause(name))
        const text = pausedAt
          ? `"${name}" was already paused.`
          : `Paused "${name}": no tick starts until it is resumed.`
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
              ? 'The tick that was due during the pause does not run. It is recorded as paused.'
              : `The ${unrecordedTicks} ticks that were due during the pause do not run. They are recorded as paused.`
        return { text: `"${of.name}" ticks by its rule again. ${gaps}` }
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

  /**
   * Overrides the rule that the code defines. The override remains in effect after later deployments. If no rule is
   * given, removes the override.
   */
  'override-schedule': act({
    needs,
    params: { cron: 'text', timezone: 'text', every: { number: [1_000, Number.MAX_SAFE_INTEGER] } },
    preview: (context, { namespace, name, ...rule }) =>
      previewOf(context, { namespace, name }, ({ overridden, codeRule }) => {
        const code = describeRule(codeRule)
        if (isRule(rule)) {
          ruleFromOptions('override-schedule', rule)
          const text = `"${name}" ticks by ${describeRule(rule)} from now on, even after a deployment, until the override is cleared. The rule in the code is ${code}.`
          return { text }
        }
        return { text: clearText(name, overridden, code), applies: overridden }
      }),
    run: (context, { namespace, name, ...rule }) =>
      withSchedule(context, { namespace, name }, ({ overridden }) =>
        context.asMember(namespace, async ({ schedules }) => {
          const isNew = isRule(rule)
          await schedules.override(name, isNew ? rule : null)
          const after = (await schedules.find(name))!
          const ruleText = describeRule(after.rule)
          const text = isNew
            ? `"${name}" ticks by ${ruleText}, even after a deployment, until the override is cleared (rule in the code: ${describeRule(after.codeRule)}).`
            : clearText(name, overridden, ruleText)
          const result = { schedule: name, rule: after.rule, overridden: isNew }
          return { done: isNew || overridden, text, result }
        }),
      ),
  }),
}

function isRule({ cron, every }: { readonly cron?: string | undefined; readonly every?: number | undefined }): boolean {
  return cron !== undefined || every !== undefined
}

function clearText(name: string, overridden: boolean, code: string): string {
  return overridden
    ? `"${name}" ticks by the rule in the code again: ${code}.`
    : `"${name}" has no override. Its rule in the code is ${code}.`
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

/**
 * Previews an act on a schedule. The act applies and is not dangerous, unless `consequenceOf` returns something else.
 */
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
  const running = runningOf(found)
  const waits = found.runs.some(({ state, attempt }) => state === 'waiting' && attempt === 0)
  const who = running
    .map(({ host, osPid, instance }) => (host ? `${host} process ${osPid}` : (instance ?? 'an instance')))
    .join(' and ')
  if (overlap === 'skip' && (running.length > 0 || waits)) {
    const there = running.length > 0 ? `${who} runs it` : 'a run waits to start'
    const text = `Nothing happens: ${there}, and "${name}" allows no other run at the same time.`
    return { text, applies: false }
  }
  if (overlap === 'queue' && waits) {
    const text = `Nothing happens: a run of "${name}" already waits, and at most one run may wait.`
    return { text, applies: false }
  }
  const by =
    members.length > 0
      ? `${members.length === 1 ? 'Its only member' : `One of its ${members.length} members`} starts`
      : 'No live instance defines the schedule. The request waits until an instance does, which then starts'
  const rest = 'in addition to the rule. The ticks of the rule do not change.'
  if (overlap === 'replace' && running.length > 0) {
    const text = `Asks the run of ${who} to stop, and records it as cancelled. ${by} another run now, ${rest}`
    return { text, dangerous: true }
  }
  const when = overlap === 'queue' && running.length > 0 ? `when the run of ${who} has ended` : 'now'
  return { text: `${by} a run of "${name}" ${when}, ${rest}` }
}

function runningOf({ runs }: ScheduleDetails): ScheduleDetails['runs'] {
  return runs.filter(({ state }) => state === 'running')
}

function factsOf(found: ScheduleDetails): (readonly [string, string])[] {
  const { rule, members, nextAt, pausedAt, overlap, runs } = found
  const latest = runs.find(({ endedAt }) => endedAt !== null)
  const facts: (readonly [string, string] | null | undefined)[] = [
    ['Rule', rule ? describeRule(rule) : 'one of a newer version'],
    nextAt && ['Next tick', timeOf(nextAt)],
    pausedAt && ['Paused since', timeOf(pausedAt)],
    ['Members', String(members.length)],
    ['Overlap', overlap],
    ...runningOf(found).map(({ tick, host, osPid, instance, startedAt }) => {
      const since = startedAt ? `, since ${timeOf(startedAt)}` : ''
      return ['Runs now', `tick ${timeOf(tick)} on ${host ? `${host} process ${osPid}` : instance}${since}`] as const
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
  const { rows } = await observer.schedules.list({ namespace })
  const meant = suggest(
    name,
    rows.map((known) => known.name),
  )
  return joinSentences(`There is no schedule "${name}".`, meant && `Did you mean "${meant}"?`)
}
