import { pause, UsageError } from '../../base/index.js'
import { Holdfast, type LeaseOptions } from '../../holdfast.js'
import { Child, onSignals, statusOfSignal } from '../child.js'
import { connect } from '../connect.js'
import { Exit, report, say } from '../failure.js'
import type { Settings } from '../settings.js'
import { runExitCode, supervise } from './supervise.js'
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
    await report(error, settings.flag('json'))
    status = runExitCode.beforeChild
  }
  throw new Exit(status)
}

async function run(settings: Settings, name: string, command: readonly string[]): Promise<number> {
  const { pool, schema } = connect(settings)
  const [program, ...args] = command
  if (!program)
    throw new UsageError('Expected a command after --', 'Such as: holdfast lock run report -- node report.js')
  const rule = readTick(settings)
  const wait = settings.isNegated('wait') ? 0 : settings.durationMs('wait')
  const busyExit = settings.wholeNumber('busyExit', 0, 255)
  const tell = settings.flag('quiet') ? () => {} : say
  const killAfterMs = settings.durationMs('killAfter') ?? 5_000
  const mode = settings.flag('shared') ? 'shared' : 'exclusive'
  if (rule && mode === 'shared')
    throw new UsageError('Expected --tick or --shared, got both: a tick is run by one host')
  const lease = settings.flag('lease') ? leaseOptions(settings) : undefined
  for (const only of ['ttl', 'hold']) {
    if (!lease && settings.text(only)) throw new UsageError(`Expected --lease beside --${only}: a lock has none`)
  }

  // Until the child runs, a signal ends the waiting; from then on it is the child's.
  const giveUp = new AbortController()
  let obey = (signal: NodeJS.Signals) => giveUp.abort(new Exit(statusOfSignal(signal)))
  let wasTold = false
  onSignals((signal) => obey(signal))
  const aborted = new Promise<never>((_, reject) =>
    giveUp.signal.addEventListener('abort', () => reject(giveUp.signal.reason)),
  )
  aborted.catch(() => {})

  let holdfast: Holdfast | undefined
  try {
    const opening = Holdfast.open({
      pool,
      schema,
      directUrl: settings.text('directUrl'),
      namespace: settings.text('namespace'),
      expiry: settings.durationMs('expiry', 2_000),
      // A lease asks for no session, so that it works behind any pooler.
      anchor: lease ? 'none' : 'required',
    })
    const opened = await Promise.race([opening, aborted])
    holdfast = opened
    /** Null when the name is taken. */
    const underLock = async (env: NodeJS.ProcessEnv, waitMs: number | undefined, alive?: AbortSignal) => {
      const silence = tellWhenWaiting(`for "${name}"; \`holdfast lock show\` tells who holds it`)
      const { signal } = giveUp
      const taking = lease
        ? takeFrom(opened.leases, name, { ...lease, signal }, waitMs)
        : takeFrom(opened.locks, name, { mode, signal }, waitMs)
      const lock = await taking.finally(silence)
      // The signal may have come in the instant of the grant.
      giveUp.signal.throwIfAborted()
      if (lock === null) {
        tell(`holdfast: "${name}" is taken${wait ? ' and the wait is over' : ''}`)
        return null
      }
      const child = new Child([program, ...args], { HOLDFAST_NAME: name, HOLDFAST_FENCE: String(lock.fence), ...env })
      obey = (signal) => {
        wasTold = true
        child.forward(signal)
      }
      const ended = await supervise(child, program, lock, killAfterMs, alive)
      // Whoever ended it wants this process to end, not the work to be done.
      return wasTold && ended.status !== 0 ? { ...ended, isItsOwn: false } : ended
    }
    if (rule === undefined) return (await underLock({}, wait))?.status ?? busyExit ?? runExitCode.busy
    const coming = { holdfast, name, rule, waitMs: wait ?? 0, giveUp: giveUp.signal, tell }
    return await oncePerTick({ ...coming, overExit: busyExit ?? 0, busyExit: busyExit ?? runExitCode.busy }, underLock)
  } finally {
    // A server that does not answer must not keep the status from whoever waits for it; nothing is held before we are open.
    await Promise.race([(holdfast?.close() ?? Promise.resolve()).then(() => pool.end()), pause(holdfast ? closeMs : 0)])
  }
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
