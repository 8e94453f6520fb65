import { pause, UsageError } from '../../base/index.js'
import { Holdfast, type HoldfastError, type Lease, type LeaseOptions, type Lock } from '../../holdfast.js'
import { Child, onSignals, statusOfSignal } from '../child.js'
import { connect } from '../connect.js'
import { Exit, report, say } from '../failure.js'
import type { Settings } from '../settings.js'

/** What `lock run` adds to the child's own status; the last three as env(1), nice(1) and timeout(1) have them. */
export const runExitCode = { lost: 123, busy: 124, beforeChild: 125, notExecutable: 126, notFound: 127 } as const

const closeMs = 5_000
const tellAfterMs = 1_000

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
  const wait = settings.isNegated('wait') ? 0 : settings.durationMs('wait')
  const busyExit = settings.wholeNumber('busyExit', 0, 255) ?? runExitCode.busy
  const killAfterMs = settings.durationMs('killAfter') ?? 5_000
  if (!command[0])
    throw new UsageError('Expected a command after --', 'Such as: holdfast lock run report -- node report.js')
  const mode = settings.flag('shared') ? 'shared' : 'exclusive'
  const lease = settings.flag('lease') ? leaseOptions(settings) : undefined
  for (const only of ['ttl', 'hold']) {
    if (!lease && settings.text(only)) throw new UsageError(`Expected --lease beside --${only}: a lock has none`)
  }

  // Until the child runs, a signal ends the waiting; from then on it is the child's.
  const giveUp = new AbortController()
  let obey = (signal: NodeJS.Signals) => giveUp.abort(new Exit(statusOfSignal(signal)))
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
    holdfast = await Promise.race([opening, aborted])
    const silence = setTimeout(() => tellThatWeWait(name), tellAfterMs)
    const { signal } = giveUp
    const taking = lease
      ? takeFrom(holdfast.leases, name, { ...lease, signal }, wait)
      : takeFrom(holdfast.locks, name, { mode, signal }, wait)
    const lock = await taking.finally(() => clearTimeout(silence))
    // The signal may have come in the instant of the grant.
    giveUp.signal.throwIfAborted()
    if (lock === null) {
      say(`holdfast: "${name}" is taken${wait ? ' and the wait is over' : ''}`)
      return busyExit
    }
    const child = new Child([command[0], ...command.slice(1)], {
      HOLDFAST_NAME: name,
      HOLDFAST_FENCE: String(lock.fence),
    })
    obey = (signal) => child.forward(signal)
    return await supervise(child, command[0], lock, killAfterMs)
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

/** People in front of a terminal wonder why nothing happens; a log does not. */
function tellThatWeWait(name: string): void {
  if (process.stderr.isTTY) say(`holdfast: waiting for "${name}"; \`holdfast lock show\` tells who holds it`)
}

/** Lets the child run, for as long as the lock allows. */
async function supervise(child: Child, command: string, lock: Lock | Lease, killAfterMs: number): Promise<number> {
  let stopped: Promise<void> | undefined
  const stop = () => {
    say(`holdfast: ${(lock.signal.reason as HoldfastError).message}; stopping the command`)
    stopped ??= child.stop(killAfterMs)
  }
  lock.signal.addEventListener('abort', stop)
  if (lock.signal.aborted) stop()
  const status = await child.ended.catch((error) => notStarted(command, error))
  lock.signal.removeEventListener('abort', stop)
  // What the child has started may outlive it, and must not outlive the lock.
  await stopped
  // Asked of the lock and not of the signal: when all of us were frozen, no event has spoken yet.
  return lock.held ? status : runExitCode.lost
}

function notStarted(command: string, error: NodeJS.ErrnoException): number {
  const why: Record<string, string> = { ENOENT: 'was not found', EACCES: 'may not be executed' }
  say(`holdfast: ${JSON.stringify(command)} ${why[error.code!] ?? `could not be started: ${error.message}`}`)
  if (error.code === 'ENOENT') return runExitCode.notFound
  return error.code === 'EAGAIN' || error.code === 'ENOMEM' ? runExitCode.beforeChild : runExitCode.notExecutable
}
