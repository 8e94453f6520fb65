import { longestTimerMs, pause, UsageError, unlessAborted } from '../../base/index.js'
import type { TickRule } from '../../cron/index.js'
import { Holdfast, type LeaseOptions } from '../../index.js'
import { Child, forwardedSignals, statusOfSignal } from '../child.js'
import { connect } from '../connect.js'
import { Exit, report, say } from '../failure.js'
import type { Settings } from '../settings.js'
import { onSignals } from '../signals.js'
import { type CommandRun, type Ended, runExitCode, supervise } from './supervise.js'
import { oncePerTick, readTick } from './tick.js'
import { tellWhenWaiting } from './waiting.js'

const closeMs = 5_000

/** flock(1) for a fleet: runs a command while a name is held. */
export async function lockRun(settings: Settings, name: string, command: readonly string[]): Promise<void> {
  let status: number
  try {
    status = await run(settings, name, command)
  } catch (error) {
    if (error instanceof Exit) throw error
    await report(error, settings.flag('json') || settings.flag('jsonl'))
    status = runExitCode.beforeChild
  }
  throw new Exit(status)
}

interface Asked {
  readonly name: string
  readonly command: readonly [string, ...string[]]
  readonly rule: TickRule | undefined
  /** Undefined: without limit. */
  readonly waitMs: number | undefined
  readonly busyExit: number | undefined
  readonly expiryMs: number | undefined
  readonly killAfterMs: number
  readonly mode: 'shared' | 'exclusive'
  readonly lease: LeaseOptions | undefined
  readonly tell: (line: string) => void
}

function readAsked(settings: Settings, name: string, [program, ...args]: readonly string[]): Asked {
  if (!program) {
    throw new UsageError('Expected a command after --', 'Such as: holdfast lock run report -- node report.js')
  }
  const rule = readTick(settings)
  const isShared = settings.flag('shared')
  if (rule && isShared) throw new UsageError('Expected --tick or --shared, got both: a tick is run by one host')
  const lease = settings.flag('lease') ? leaseOptions(settings) : undefined
  for (const only of ['ttl', 'hold']) {
    if (!lease && settings.text(only)) throw new UsageError(`Expected --lease beside --${only}: a lock has none`)
  }
  return {
    name,
    command: [program, ...args],
    rule,
    waitMs: settings.isNegated('wait') ? 0 : settings.durationMs('wait'),
    busyExit: settings.wholeNumber('busyExit', 0, 255),
    expiryMs: settings.durationMs('expiry', 2_000),
    killAfterMs: settings.durationMs('killAfter', 0, longestTimerMs) ?? 5_000,
    mode: isShared ? 'shared' : 'exclusive',
    lease,
    tell: settings.flag('quiet') ? () => {} : say,
  }
}

async function run(settings: Settings, name: string, command: readonly string[]): Promise<number> {
  const asked = readAsked(settings, name, command)
  const { pool, schema } = connect(settings)
  const signals = new Signals()
  let holdfast: Holdfast | undefined
  try {
    const opening = Holdfast.open({
      pool,
      schema,
      directUrl: settings.text('directUrl'),
      namespace: settings.name('namespace'),
      expiry: asked.expiryMs,
      // A lease asks for no session, so that it works behind any pooler.
      anchor: asked.lease ? 'none' : 'required',
    })
    const opened = await unlessAborted(signals.giveUp, opening)
    holdfast = opened
    const { rule, tell, waitMs, busyExit = runExitCode.busy } = asked
    if (rule === undefined) return (await underLock(opened, asked, signals, { waitMs }))?.status ?? busyExit
    const exits = { overExit: asked.busyExit ?? 0, busyExit }
    const coming = { holdfast, name, rule, waitMs: waitMs ?? 0, giveUp: signals.giveUp, tell, ...exits }
    return await oncePerTick(coming, (run) => underLock(opened, asked, signals, run))
  } finally {
    // A server that does not answer must not keep the status from whoever waits for it; nothing is held before we are open.
    await Promise.race([(holdfast?.close() ?? Promise.resolve()).then(() => pool.end()), pause(holdfast ? closeMs : 0)])
  }
}

/** Until the child runs, a signal ends the waiting; from then on it is the child's. */
class Signals {
  readonly #giveUp = new AbortController()
  #child: Child | undefined
  /** Whether the child was sent one. */
  wereForwarded = false

  constructor() {
    onSignals(forwardedSignals, (signal) => {
      if (!this.#child) return this.#giveUp.abort(new Exit(statusOfSignal(signal)))
      this.wereForwarded = true
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

/** Runs the command while the name is held; null when that is taken. */
async function underLock(
  { locks, leases }: Holdfast,
  { name, command, killAfterMs, mode, lease, tell }: Asked,
  signals: Signals,
  { waitMs, env, alive }: CommandRun,
): Promise<Ended | null> {
  const silence = tellWhenWaiting(`for "${name}"; \`holdfast lock show\` tells who holds it`)
  const signal = signals.giveUp
  const taking = lease
    ? takeFrom(leases, name, { ...lease, signal }, waitMs)
    : takeFrom(locks, name, { mode, signal }, waitMs)
  const lock = await taking.finally(silence)
  // The signal may have come in the instant of the grant.
  signal.throwIfAborted()
  if (lock === null) {
    tell(`holdfast: "${name}" is taken${waitMs ? ' and the wait is over' : ''}`)
    return null
  }
  const child = new Child(command, { HOLDFAST_NAME: name, HOLDFAST_FENCE: String(lock.fence), ...env })
  signals.forwardTo(child)
  const ended = await supervise(child, command[0], lock, killAfterMs, alive)
  // Whoever ended it wants this process to end, not the work to be done.
  return signals.wereForwarded && ended.status !== 0 ? { ...ended, isItsOwn: false } : ended
}

function leaseOptions(settings: Settings): LeaseOptions {
  if (settings.flag('shared')) throw new UsageError('Expected --lease or --shared, got both: a lease has one holder')
  return { ttl: settings.durationMs('ttl', 1_000), hold: settings.durationMs('hold') }
}

interface Room<Options, Held> {
  acquire(name: string, options: Options): Promise<Held>
  tryAcquire(name: string, options: Options & { wait: number }): Promise<Held | null>
}

/** Waits without limit when no wait is given. */
function takeFrom<Options, Held>(
  room: Room<Options, Held>,
  name: string,
  options: Options,
  wait: number | undefined,
): Promise<Held | null> {
  return wait === undefined ? room.acquire(name, options) : room.tryAcquire(name, { ...options, wait })
}
