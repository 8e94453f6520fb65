import { formatDuration } from '../../base/index.js'
import { ruleInWords } from '../../cron/index.js'
import type { ScheduleDetails } from '../../observe/index.js'
import { act, type Outcome } from '../act.js'
import type { Consequence } from '../consequence.js'

const needs = { namespace: 'text', name: 'text' } as const

/** What may be done on the page of schedules. */
export const schedules = {
  /** Asks for a run now, beside the rule. */
  'run-schedule': act({
    needs,
    async preview({ observer }, { namespace, name }) {
      const found = await observer.schedules.find(namespace, name)
      return found ? consequenceOfRun(name, found) : noSuch(name)
    },
    async run({ observer, asMember }, { namespace, name }) {
      const found = await observer.schedules.find(namespace, name)
      if (!found) return missing(name)
      const tick = await asMember(namespace, ({ schedules }) => schedules.run(name))
      if (tick === null) {
        return { done: false, says: `A run of "${name}" is there, and it allows no other beside or behind it.` }
      }
      const by = found.members.length > 0 ? 'a member begins it' : 'it begins when an instance has it in its code'
      return { done: true, says: `Asked for a run of "${name}" (${tick.toISOString()}): ${by}.` }
    },
  }),

  /** No tick begins any more. */
  'pause-schedule': act({
    needs,
    async preview({ observer }, { namespace, name }) {
      const found = await observer.schedules.find(namespace, name)
      if (!found) return noSuch(name)
      const subject = subjectOf(name)
      if (found.pausedAt) {
        return { subject, says: `It is paused since ${found.pausedAt.toISOString()}: nothing changes.`, grave: false }
      }
      const { nextAt } = found
      const next = nextAt ? `The next one would be at ${momentOf(nextAt)}.` : 'It has no more ticks anyway.'
      const goesOn = runningOf(found).length > 0 ? ' What runs now goes on.' : ''
      return {
        subject,
        says: `No tick of "${name}" begins any more, whatever is deployed, until it is resumed. ${next}${goesOn}`,
        grave: false,
        facts: factsOf(found),
      }
    },
    async run({ observer, asMember }, { namespace, name }) {
      const found = await observer.schedules.find(namespace, name)
      if (!found) return missing(name)
      if (found.pausedAt) return { done: false, says: `"${name}" was paused already.` }
      await asMember(namespace, ({ schedules }) => schedules.pause(name))
      return { done: true, says: `Paused "${name}": no tick begins until it is resumed.` }
    },
  }),

  /** It ticks again. */
  'resume-schedule': act({
    needs,
    async preview({ observer }, { namespace, name }) {
      const found = await observer.schedules.find(namespace, name)
      if (!found) return noSuch(name)
      const subject = subjectOf(name)
      if (!found.pausedAt) return { subject, says: 'It is not paused: nothing changes.', grave: false }
      const { passed } = found
      const gaps =
        passed === 0
          ? 'No tick has passed meanwhile.'
          : `${passed === 1 ? 'The one tick' : `The ${passed} ticks`} of the time between ${passed === 1 ? 'does' : 'do'} not run, and stay recorded as paused.`
      return { subject, says: `"${name}" ticks again by its rule. ${gaps}`, grave: false, facts: factsOf(found) }
    },
    async run({ observer, asMember }, { namespace, name }) {
      const found = await observer.schedules.find(namespace, name)
      if (!found) return missing(name)
      if (!found.pausedAt) return { done: false, says: `"${name}" is not paused any more.` }
      await asMember(namespace, ({ schedules }) => schedules.resume(name))
      const { nextAt } = (await observer.schedules.find(namespace, name)) ?? found
      return { done: true, says: `Resumed "${name}"${nextAt ? `: it ticks next at ${momentOf(nextAt)}` : ''}.` }
    },
  }),
}

/** What becomes of a run that is asked for, by what is there and by the overlap of the schedule. */
function consequenceOfRun(name: string, found: ScheduleDetails): Consequence {
  const { overlap, members, runs } = found
  const running = runningOf(found)
  const waits = runs.some(({ state, attempt }) => state === 'waiting' && attempt === 0)
  const who = running.map(({ host, osPid, instance }) => (host ? `${host}/${osPid}` : (instance ?? 'somebody')))
  const subject = subjectOf(name)
  const facts = factsOf(found)
  const beside = 'Its ticks stay as they are.'
  const by =
    members.length > 0
      ? `One of its ${members.length === 1 ? 'members, the only one,' : `${members.length} members`} begins`
      : 'No live instance has it in its code, so it waits until one comes, which begins'
  if (overlap === 'skip' && (running.length > 0 || waits)) {
    const there = running.length > 0 ? `${who.join(' and ')} is at a run` : 'a run waits to begin'
    return { subject, says: `Nothing happens: ${there}, and "${name}" allows no other beside it.`, grave: false, facts }
  }
  if (overlap === 'queue' && waits) {
    return {
      subject,
      says: `Nothing happens: a run of "${name}" waits already, and one waits at most.`,
      grave: false,
      facts,
    }
  }
  if (overlap === 'replace' && running.length > 0) {
    return {
      subject,
      says: `Tells the run of ${who.join(' and ')} to stop: it is recorded as cancelled. ${by} another now, beside the rule. ${beside}`,
      grave: true,
      facts,
    }
  }
  const when = overlap === 'queue' && running.length > 0 ? `when the run of ${who.join(' and ')} has ended` : 'now'
  return { subject, says: `${by} a run of "${name}" ${when}, beside the rule. ${beside}`, grave: false, facts }
}

function runningOf({ runs }: ScheduleDetails): ScheduleDetails['runs'] {
  return runs.filter(({ state }) => state === 'running')
}

function factsOf(found: ScheduleDetails): NonNullable<Consequence['facts']> {
  const { rule, members, nextAt, pausedAt, overlap } = found
  const latest = found.runs.find(({ endedAt }) => endedAt !== null)
  return [
    ['Rule', rule ? ruleInWords(rule) : 'one of a newer version'],
    ...(nextAt ? [['Next tick', momentOf(nextAt)] as const] : []),
    ...(pausedAt ? [['Paused since', momentOf(pausedAt)] as const] : []),
    ['Members', String(members.length)],
    ['While a run is there', overlap],
    ...runningOf(found).map(({ tick, host, osPid, instance, startedAt }) => {
      const since = startedAt ? `, since ${momentOf(startedAt)}` : ''
      return ['Runs now', `tick ${momentOf(tick)} on ${host ? `${host}/${osPid}` : instance}${since}`] as const
    }),
    ...(latest?.startedAt && latest.endedAt
      ? [
          [
            'Last run',
            `${latest.state} in ${formatDuration(latest.endedAt.getTime() - latest.startedAt.getTime())}`,
          ] as const,
        ]
      : []),
  ]
}

function subjectOf(name: string): string {
  return `schedule ${name}`
}

function momentOf(at: Date): string {
  return `${at.toISOString().slice(0, 19).replace('T', ' ')} UTC`
}

function noSuch(name: string): Consequence {
  return { subject: subjectOf(name), says: missing(name).says, grave: false }
}

function missing(name: string): Outcome {
  return { done: false, says: `There is no schedule "${name}" any more.` }
}
