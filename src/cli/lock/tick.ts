import { parseDuration, UsageError } from '../../base/index.js'
import { ruleFromOptions, type TickRule } from '../../cron/index.js'
import type { Holdfast } from '../../index.js'
import { reportError } from '../failure.js'
import type { Settings } from '../settings.js'
import { type CommandResult, type CommandRun, runExitCode } from './supervise.js'
import { noticeWhenWaiting } from './wait-notice.js'

const dayMs = 86_400_000
const minRetainMs = 7 * dayMs

/** The rule of `--tick`: a cron expression, or an interval. */
export function readTick(settings: Settings): TickRule | undefined {
  const given = settings.text('tick')
  const timezone = settings.text('timezone')
  if (given !== undefined) {
    const every = parseDuration(given)
    return ruleFromOptions('--tick', every === undefined ? { cron: given, timezone } : { every, timezone })
  }
  if (timezone === undefined) return undefined
  throw new UsageError('Expected --tick beside --timezone', 'It says whose local times a cron expression names.')
}

export interface TickRun {
  readonly holdfast: Holdfast
  readonly name: string
  readonly rule: TickRule
  /** How long to wait while another host runs the command for the tick. */
  readonly waitMs: number
  readonly giveUp: AbortSignal
  /** What to end with when another host has run it, and when one is at it. */
  readonly alreadyRunExit: number
  readonly busyExit: number
  readonly log: (line: string) => void
}

/**
 * Runs the command for the nearest tick, unless some host has. A delivery, with a key of name and tick, keeps that: while
 * the command runs it belongs to the life of this instance, so that the tick of a host that died is free again. `work`
 * answers with null when the name is taken.
 */
export async function oncePerTick(
  { holdfast, name, rule, waitMs, giveUp, alreadyRunExit, busyExit, log }: TickRun,
  work: (run: CommandRun) => Promise<CommandResult | null>,
): Promise<number> {
  const until = performance.now() + waitMs
  const cancelNotice = noticeWhenWaiting('for the tick to come')
  const tick = await holdfast.schedules.untilNearest(rule, giveUp).finally(cancelNotice)
  if (tick === null) throw new UsageError('Expected --tick to be a rule of which a tick has come, or comes soon')
  const tickText = tick.toISOString()
  let ended: CommandResult | null = null
  try {
    const outcome = await holdfast.once.run(
      `tick/${name}/${tickText}`,
      async ({ signal }) => {
        const leftMs = Math.max(0, until - performance.now())
        ended = await work({ waitMs: leftMs, env: { HOLDFAST_TICK: tickText }, otherSignal: signal })
        if (!ended?.ranToEnd) throw new NotRunError()
        return ended.status
      },
      { wait: waitMs, retain: retainMs(rule, tick), signal: giveUp },
    )
    if (outcome.status === 'done') return outcome.value
    if (outcome.status === 'replayed') {
      log(
        `holdfast: "${name}" has run for ${tickText}${outcome.value === 0 ? '' : `, and ended with ${outcome.value}`}`,
      )
      return alreadyRunExit
    }
    log(`holdfast: "${name}" runs for ${tickText} elsewhere`)
    return busyExit
  } catch (error) {
    if (error instanceof NotRunError) return ended === null ? busyExit : (ended as CommandResult).status
    if (ended === null) throw error
    // The command has ended, and that could not be recorded: another host may run it for this tick again.
    await reportError(error, false)
    return runExitCode.lost
  }
}

/** Thrown so that the tick does not count as run. */
class NotRunError extends Error {}

/** Until nobody means this tick any more, which is when the next has come, and for a look at it afterwards. */
function retainMs(rule: TickRule, tick: Date): number {
  const next = rule.next(tick)
  return Math.max(minRetainMs, next === null ? 0 : next.getTime() - tick.getTime() + dayMs)
}
