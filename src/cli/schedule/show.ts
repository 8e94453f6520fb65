import { noSuchSchedule } from '../../acts/index.js'
import { checkName } from '../../base/index.js'
import { describeRule } from '../../cron/index.js'
import type { Holdfast, PastGap, PastRun, ScheduleStatus } from '../../index.js'
import { withHoldfast } from '../connect.js'
import type { ScheduleShow } from '../documents.js'
import { conditionNotMet, printMessage } from '../failure.js'
import { type Fact, printDocument, printFacts } from '../output.js'
import type { Settings } from '../settings.js'

export async function scheduleShow(settings: Settings, word: string): Promise<void> {
  const limit = settings.wholeNumber('limit', 1, 10_000) ?? 10
  const name = checkName(word, 'schedule')
  await withHoldfast(settings, async ({ schedules, namespace }, observer) => {
    const document = await scheduleDocument(schedules, name, limit, settings.flag('skipped'))
    if (!document) return conditionNotMet(await noSuchSchedule(observer, namespace, name))
    if (!printDocument<'schedule-show'>(settings, document))
      printFacts(settings, [...factsOf(document), ...document.history.map(historyFact)])
    if (settings.flag('skipped') && document.history.length === 0) printMessage('No tick was skipped.')
  })
}

/** Reads a schedule and its latest runs and gaps, or only its latest gaps. Returns null if the schedule is unknown. */
export async function scheduleDocument(
  schedules: Holdfast['schedules'],
  name: string,
  limit: number,
  isSkippedOnly = false,
): Promise<ScheduleShow | null> {
  const status = await schedules.find(name)
  if (!status) return null
  return { ...status, history: await schedules.runs(name, { limit, skipped: isSkippedOnly }) }
}

function stateFacts({ pausedAt, members, override, job }: ScheduleStatus): Fact[] {
  const states = [
    pausedAt && 'paused: ticks will not run until the schedule is resumed',
    members.length === 0 && !job && 'orphan: no live instance defines this schedule in its code',
    override && 'overridden: an operator has replaced the rule in the code',
  ].filter((state) => typeof state === 'string')
  return (states.length > 0 ? states : ['active']).map((state) => ['state', state])
}

function factsOf(status: ScheduleStatus): Fact[] {
  const { name, rule, codeRule, override, pausedAt, nextAt, members, job } = status
  return [
    ['name', name],
    ...stateFacts(status),
    ['rule', describeRule(rule)],
    ...(override ? [['rule in the code', describeRule(codeRule)] as const] : []),
    ...(pausedAt ? [['paused', pausedAt.toISOString()] as const] : []),
    ...(nextAt ? [['next', nextAt.toISOString()] as const] : []),
    ...(job ? [['stored', `each tick enqueues ${job.kind} into ${job.queue}`] as const] : []),
    ...members.map((member): Fact => ['member', `${labelOf(member)}, ${describeRule(member.rule)}`]),
  ]
}

function labelOf({ instance, instanceName }: Pick<PastRun, 'instance' | 'instanceName'>): string {
  return instanceName ?? `instance ${instance}`
}

function historyFact(past: PastRun | PastGap): Fact {
  if (past.kind === 'gap') {
    const untilText = past.ticks > 1 ? ` to ${past.last.toISOString()}, ${past.ticks} ticks` : ''
    return ['gap', `${past.first.toISOString()}${untilText}: ${past.reason}`]
  }
  const { tick, state, extra, attempt, error, job } = past
  const by = past.instance ? ` by ${labelOf(past)}` : ''
  const attemptText = attempt > 1 ? `, attempt ${attempt}` : ''
  const jobText = job === undefined ? '' : `, enqueued job ${job}`
  const why = error ? `: ${error.name}: ${error.message}` : ''
  return [extra ? 'extra run' : 'run', `${tick.toISOString()} ${state}${by}${attemptText}${jobText}${why}`]
}
