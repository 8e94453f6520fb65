import { defaultTimes, maxTimerMs, orAborted, pause, UsageError } from '../../base/index.js'
import type { TickRule } from '../../cron/index.js'
import { Holdfast, type LeaseOptions } from '../../index.js'
import { Child, forwardedSignals, statusOfSignal } from '../child.js'
import { connect } from '../connect.js'
import { Exit, printMessage, reportError } from '../failure.js'
import type { Settings } from '../settings.js'
import { onSignals } from '../signals.js'
import { type CommandResult, type CommandRun, runExitCode, supervise } from './supervise.js'
import { oncePerTick, readTick } from './tick.js'
import { noticeWhenWaiting } from './wait-notice.js'

const closeMs = 5_000

/** Runs a command while holding a name, like flock(1) for a fleet. */
export async function lockRun(settings: Settings, name: string, command: readonly string[]): Promise<void> {
  let status: number
  try {
    status = await run(settings, name, command)
  } catch (error) {
    if (error instanceof Exit) throw error
    await reportError(error, settings.flag('json') || settings.flag('jsonl'))
    status = runExitCode.beforeChild
  }
  throw new Exit(status)
}

interface LockRunOptions {
  readonly name: string
  readonly command: readonly [string, ...string[]]
  readonly rule: TickRule | undefined
  /** Maximum time to wait for the name. Undefined: no limit. */
  readonly waitMs: number | undefined
  readonly busyExit: number | undefined
  readonly expiryMs: number | undefined
  readonly killAfterMs: number
  readonly mode: 'shared' | 'exclusive'
  readonly lease: LeaseOptions | undefined
  readonly log: (line: string) => void
}

function readOptions(settings: Settings, name: string, [program, ...args]: readonly string[]): LockRunOptions {
  if (!program) {
    throw new UsageError('Expected a command after --', 'For example: holdfast lock run report -- node report.js')
  }
  const rule = readTick(settings)
  const isShared = settings.flag('shared')
  if (rule && isShared) throw new UsageError('Expected --tick or --shared, got both: only one host runs each tick')
  const lease = settings.flag('lease') ? leaseOptions(settings) : undefined
  const leaseOnly = { ttl: '--ttl', minHold: '--min-hold' }
  for (const [option, flag] of Object.entries(leaseOnly)) {
    if (!lease && settings.text(option))
      throw new UsageError(`Expected --lease together with ${flag}: locks do not support ${flag}`)
  }
  return {
    name,
    command: [program, ...args],
    rule,
    waitMs: settings.isNegated('wait') ? 0 : settings.durationMs('wait'),
    busyExit: settings.wholeNumber('busyExit', 0, 255),
    expiryMs: settings.durationMs('expiry', 2_000),
    killAfterMs: settings.durationMs('killAfter', 0, maxTimerMs) ?? defaultTimes.lockRunKillAfterMs,
    mode: isShared ? 'shared' : 'exclusive',
    lease,
    log: settings.flag('quiet') ? () => {} : printMessage,
  }
}

async function run(settings: Settings, name: string, command: readonly string[]): Promise<number> {
  const options = readOptions(settings, name, command)
  const { pool, schema } = connect(settings)
  const signals = new Signals()
  let holdfast: Holdfast | undefined
  try {
    const opening = Holdfast.open({
      pool,
      schema,
      directUrl: settings.text('directUrl'),
      namespace: settings.name('namespace'),
      expiry: options.expiryMs,
      // A lease needs no session, so it works behind any pooler.
      anchor: options.lease ? 'none' : 'required',
      // No log, because this command reports a lost name itself.
      log: false,
    })
    const opened = await orAborted(signals.giveUp, opening)
    holdfast = opened
    const { rule, log, waitMs, busyExit = runExitCode.busy } = options
    if (rule === undefined) return (await runUnderLock(opened, options, signals, { waitMs }))?.status ?? busyExit
    const exitCodes = { alreadyRunExit: options.busyExit ?? 0, busyExit }
    const tickRun = { holdfast, name, rule, waitMs: waitMs ?? 0, giveUp: signals.giveUp, log, ...exitCodes }
    return await oncePerTick(tickRun, (run) => runUnderLock(opened, options, signals, run))
  } finally {
    // An unresponsive server must not delay the exit. Before `opened` is set, this process holds no name, so it can
    // exit immediately.
    await Promise.race([(holdfast?.close() ?? Promise.resolve()).then(() => pool.end()), pause(holdfast ? closeMs : 0)])
  }
}

/** Handles signals: a signal ends the wait for the name, or is forwarded to the child once the child has started. */
class Signals {
  readonly #giveUp = new AbortController()
  #child: Child | undefined
  /** True after a signal was forwarded to the child. */
  hasForwarded = false

  constructor() {
    onSignals(forwardedSignals, (signal) => {
      if (!this.#child) return this.#giveUp.abort(new Exit(statusOfSignal(signal)))
      this.hasForwarded = true
      this.#child.forward(signal)
    })
  }

  get giveUp(): AbortSignal {
    return this.#giveUp.signal
  }

  forwardTo(child: Child): void {
    this.#child = child
  }
}

/** Runs the command while the name is held. Returns null if another holder has the name. */
async function runUnderLock(
  { locks, leases }: Holdfast,
  { name, command, killAfterMs, mode, lease, log }: LockRunOptions,
  signals: Signals,
  { waitMs, env, otherSignal }: CommandRun,
): Promise<CommandResult | null> {
  const cancelNotice = noticeWhenWaiting(`waiting for "${name}". Run \`holdfast lock show\` to see who holds it.`)
  const signal = signals.giveUp
  const acquiring = lease
    ? acquireFrom(leases, name, { ...lease, signal }, waitMs)
    : acquireFrom(locks, name, { mode, signal }, waitMs)
  const lock = await acquiring.finally(cancelNotice)
  // A signal may arrive at the same time as the grant.
  signal.throwIfAborted()
  if (lock === null) {
    log(`holdfast: "${name}" is taken${waitMs ? ' and the wait timed out' : ''}`)
    return null
  }
  const child = new Child(command, { HOLDFAST_NAME: name, HOLDFAST_FENCE: String(lock.fence), ...env })
  signals.forwardTo(child)
  const ended = await supervise(child, command[0], lock, killAfterMs, otherSignal)
  // If the command fails after a forwarded signal, its work may be incomplete.
  return signals.hasForwarded && ended.status !== 0 ? { ...ended, ranToEnd: false } : ended
}

function leaseOptions(settings: Settings): LeaseOptions {
  if (settings.flag('shared'))
    throw new UsageError('Expected --lease or --shared, got both: a lease has only one holder')
  return { ttl: settings.durationMs('ttl', 1_000), minHold: settings.durationMs('minHold') }
}

interface Acquirer<Options, Held> {
  acquire(name: string, options: Options): Promise<Held>
  tryAcquire(name: string, options: Options & { wait: number }): Promise<Held | null>
}

/** Acquires the name. Waits indefinitely if no maximum wait is given. */
function acquireFrom<Options, Held>(
  acquirer: Acquirer<Options, Held>,
  name: string,
  options: Options,
  wait: number | undefined,
): Promise<Held | null> {
  return wait === undefined ? acquirer.acquire(name, options) : acquirer.tryAcquire(name, { ...options, wait })
}
