import { parseDuration, UsageError } from '../../base/index.js'
import { readRule, type TickRule } from '../../cron/index.js'
import type { Holdfast } from '../../index.js'
import { report } from '../failure.js'
import type { Settings } from '../settings.js'
import { type CommandRun, type Ended, runExitCode } from './supervise.js'
import { tellWhenWaiting } from './waiting.js'

const dayMs = 86_400_000
const leastRetainMs = 7 * dayMs

/** The rule of `--tick`: a cron expression, or an interval. */
export function readTick(settings: Settings): TickRule | undefined {
  const given = settings.text('tick')
  const timezone = settings.text('timezone')
  if (given !== undefined) {
    const every = parseDuration(given)
    return readRule('--tick', every === undefined ? { cron: given, timezone } : { every, timezone })
  }
  if (timezone === undefined) return undefined
  throw new UsageError('Expected --tick beside --timezone', 'It says whose local times a cron expression names.')
}

export interface Coming {
  readonly holdfast: Holdfast
  readonly name: string
  readonly rule: TickRule
  /** How long to wait while another host runs the command for the tick. */
  readonly waitMs: number
  readonly giveUp: AbortSignal
  /** What to end with when another host has run it, and when one is at it. */
  readonly overExit: number
  readonly busyExit: number
  readonly tell: (line: string) => void
}

/**
 * Runs the command for the nearest tick, unless some host has. A delivery, with a key of name and tick, keeps that: while
 * the command runs it belongs to the life of this instance, so that the tick of a host that died is free again. `work`
 * answers with null when the name is taken.
 */
export async function oncePerTick(
  { holdfast, name, rule, waitMs, giveUp, overExit, busyExit, tell }: Coming,
  work: (run: CommandRun) => Promise<Ended | null>,
): Promise<number> {
  const until = performance.now() + waitMs
  const silence = tellWhenWaiting('for the tick to come')
  const tick = await holdfast.schedules.untilNearest(rule, giveUp).finally(silence)
  if (tick === null) throw new UsageError('Expected --tick to be a rule of which a tick has come, or comes soon')
  const moment = tick.toISOString()
  let ended: Ended | null = null
  try {
    const answer = await holdfast.once.run(
      `tick/${name}/${moment}`,
      async ({ signal }) => {
        const leftMs = Math.max(0, until - performance.now())
        ended = await work({ waitMs: leftMs, env: { HOLDFAST_TICK: moment }, alive: signal })
        if (!ended?.isItsOwn) throw new NotRunError()
        return ended.status
      },
      { wait: waitMs, retain: retainMs(rule, tick), signal: giveUp },
    )
    if (answer.status === 'done') return answer.value
    if (answer.status === 'replayed') {
      tell(`holdfast: "${name}" has run for ${moment}${answer.value === 0 ? '' : `, and ended with ${answer.value}`}`)
      return overExit
    }
    tell(`holdfast: "${name}" runs for ${moment} elsewhere`)
    return busyExit
  } catch (error) {
    if (error instanceof NotRunError) return ended === null ? busyExit : (ended as Ended).status
    if (ended === null) throw error
    // The command has ended, and that could not be recorded: another host may run it for this tick again.
    await report(error, false)
    return runExitCode.lost
  }
}

/** Thrown so that the tick does not count as run. */
class NotRunError extends Error {}

/** Until nobody means this tick any more, which is when the next has come, and for a look at it afterwards. */
function retainMs(rule: TickRule, tick: Date): number {
  const next = rule.next(tick)
  return Math.max(leastRetainMs, next === null ? 0 : next.getTime() - tick.getTime() + dayMs)
}
