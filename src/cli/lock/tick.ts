import { parseDuration, UsageError } from '../../base/index.js'
import { ruleFromOptions, type TickRule } from '../../cron/index.js'
import type { Holdfast } from '../../index.js'
import { reportError } from '../failure.js'
import type { Settings } from '../settings.js'
import { type CommandResult, type CommandRun, runExitCode } from './supervise.js'
import { noticeWhenWaiting } from './wait-notice.js'

const dayMs = 86_400_000
const minRetainMs = 7 * dayMs

/** Parses the `--tick` option's value, which is a cron expression or an interval. */
export function readTick(settings: Settings): TickRule | undefined {
  const given = settings.text('tick')
  const timezone = settings.text('timezone')
  if (given !== undefined) {
    const every = parseDuration(given)
    return ruleFromOptions('--tick', every === undefined ? { cron: given, timezone } : { every, timezone })
  }
  if (timezone === undefined) return undefined
  throw new UsageError(
    'Expected --tick together with --timezone',
    '--timezone is the time zone of the cron expression in --tick.',
  )
}

export interface TickRun {
  readonly holdfast: Holdfast
  readonly name: string
  readonly rule: TickRule
  /** Maximum time to wait while a different host is running the command for the tick. */
  readonly waitMs: number
  readonly giveUp: AbortSignal
  /** Exit code if a different host has already run the tick. */
  readonly alreadyRunExit: number
  /** Exit code if a different host is running the tick now. */
  readonly busyExit: number
  readonly log: (line: string) => void
}

/**
 * Runs the command for the nearest tick, unless a different host has already run that tick. A delivery records the run.
 * The delivery's key contains the name and the tick. While the command runs, the delivery belongs to this instance's
 * epoch, so that a different host can run the tick if this host dies. `work` returns null if another holder has the
 * name.
 */
export async function oncePerTick(
  { holdfast, name, rule, waitMs, giveUp, alreadyRunExit, busyExit, log }: TickRun,
  work: (run: CommandRun) => Promise<CommandResult | null>,
): Promise<number> {
  const until = performance.now() + waitMs
  const cancelNotice = noticeWhenWaiting('waiting for the next tick')
  const tick = await holdfast.schedules.untilNearest(rule, giveUp).finally(cancelNotice)
  if (tick === null)
    throw new UsageError('Expected --tick to be a rule with a tick in the recent past or the near future')
  const tickText = tick.toISOString()
  let ended: CommandResult | null = null
  try {
    const outcome = await holdfast.once.run(
      `tick/${name}/${tickText}`,
      { wait: waitMs, retain: retainMs(rule, tick), signal: giveUp },
      async ({ signal }) => {
        const leftMs = Math.max(0, until - performance.now())
        ended = await work({ waitMs: leftMs, env: { HOLDFAST_TICK: tickText }, otherSignal: signal })
        if (!ended?.ranToEnd) throw new NotRunError()
        return ended.status
      },
    )
    if (outcome.status === 'done') return outcome.value
    if (outcome.status === 'replayed') {
      log(
        `holdfast: "${name}" has already run for ${tickText}${outcome.value === 0 ? '' : `, and exited with ${outcome.value}`}`,
      )
      return alreadyRunExit
    }
    log(`holdfast: "${name}" is already running for ${tickText} in another process`)
    return busyExit
  } catch (error) {
    if (error instanceof NotRunError) return ended === null ? busyExit : (ended as CommandResult).status
    if (ended === null) throw error
    // The command has ended, but this process could not record the result. A different host may run the tick again.
    await reportError(error, false)
    return runExitCode.lost
  }
}

/** Thrown so that the tick is not recorded as having run. */
class NotRunError extends Error {}

/** Returns the record's retention time: at least one day after the next tick, so that operators can inspect it. */
function retainMs(rule: TickRule, tick: Date): number {
  const next = rule.next(tick)
  return Math.max(minRetainMs, next === null ? 0 : next.getTime() - tick.getTime() + dayMs)
}
