// The protocol of locks and leases on one name: grants, renewals, expiry by the server, the grace period after a restart, failover, fences,
// guarded writes and releases. README.md describes the rules, the bounds, and what the model leaves out.
import { type Action, copy, countOf, type Model, type Sql, type Step } from './explore.ts'

/** The time for which a lease lasts, in ticks of the clock. A client relies on a lease or a session for one tick less, counted from its request. */
const ttl = 3

/** Bugs that can be planted. The names are those in mutations.ts, where it has the bug. */
export const holdBugs = [
  'the guard does not compare fences',
  'the client trusts a session for longer than the server does',
  'the client trusts a lease for longer than the server does',
  'a lock is granted without a check for a lease of the name',
  'a lease is released without a check of its holder',
  'a lease is granted again shortly before it expires',
  'new instances do not wait for earlier instances after a restart',
  'neither the clock nor the tables determine where numbers continue after a restore',
  'a restore is not detected',
  'a leader is not notified that its term has ended',
  'a lease is checked before the lock is granted',
  'the clock is read after the row of a lease',
  'a server generation never settles',
  'a new epoch keeps the locks of other sessions',
] as const
export type HoldBug = (typeof holdBugs)[number]

export const holdFaults = [
  'kill',
  'lose a response',
  'lose the response to a release',
  'terminate a session',
  'restart the server',
  'fail over with all commits',
  'fail over without the last commits',
  'restore a backup',
] as const
export type HoldFault = (typeof holdFaults)[number]

/** Everything that is written to disk and replicated. */
interface Tables {
  lease: { holder: number; token: number; fence: number; expiresIn: number } | null
  /** Last number of the sequence `fence`. */
  fence: number
  /** Largest fence of a guarded write (`fence_guard`), and the fence of the value that was written last. */
  guard: number
  written: number
  /** The generation of each instance's row, compared with the server's generation. */
  instances: ('none' | 'earlier' | 'current')[]
  /** Ticks since the server's generation began, up to the expiry. */
  began: number
}

interface Request {
  what: 'try' | 'heartbeat' | 'unlock' | 'acquire' | 'renew'
  /** Ticks since the client sent the request, up to the time for which the client may trust a response. */
  age: number
  stage: 'sent' | 'running' | 'executed'
  /** The granted fence, or 1 for a renewed lease. 0 if nothing was granted. */
  fence: number
}

interface Actor {
  uses: 'lock' | 'lease'
  isAlive: boolean
  /** Whether the grace period had passed when the epoch began. */
  isReady: boolean
  /** Ticks for which the client still relies on its session (lock), or on its lease. */
  trust: number
  /** Fence of the hold. 0 if the actor holds nothing. */
  fence: number
  token: number
  request: Request | null
  /** A release of a lease, which uses another connection. Fence 0: the token alone. */
  release: { token: number; fence: number } | null
  /** A guarded write, which uses another connection. */
  write: { fence: number; isSessionGone: boolean } | null
  /** Whether the guarantees exclude the current hold, because its session or its row an operator or a failover removed. */
  isExcluded: boolean
}

interface Session {
  /** Ticks since the last statement, up to the expiry. */
  idle: number
  lock: 'none' | 'checking' | 'held'
  /** For bugs that read the lease too early: the ticks until its expiry. */
  seen: number
  /** Whether the tables were restored during the session. The session's grants fail then. */
  isFromBefore: boolean
}

interface State {
  actors: Actor[]
  sessions: (Session | null)[]
  tables: Tables
  standby: Tables
  /** Whether the row in `server_generation` describes the running server. */
  isNoticed: boolean
  /** Largest fence that was ever granted, and the last token. Not known to the protocol. */
  granted: number
  tokens: number
  faults: number
  wrong: string | null
}

export interface HoldsOptions {
  readonly actors: readonly Actor['uses'][]
  /** Time after which the server ends a silent session, in ticks. The default is the time for which a lease lasts. */
  readonly expiry?: number
  /** Maximum number of faults. */
  readonly faults: number
  /** The faults that can occur. */
  readonly kinds?: readonly HoldFault[]
  /** Whether holders write. The default is true. */
  readonly hasWrites?: boolean
  readonly bug?: HoldBug | undefined
}

const names = ['A', 'B', 'C']
const lockFile = 'locks/locks.sql'
const leaseFile = 'leases/leases.sql'
const leaseFunctions = 'leases/functions.sql'
const functions = 'postgres/functions.sql'
const instance = 'postgres/instance.sql'
const session = 'postgres/session.sql'

export function holds({
  actors: uses,
  expiry = ttl,
  faults,
  kinds = holdFaults,
  hasWrites = true,
  bug,
}: HoldsOptions): Model<State> {
  const has = (name: HoldBug) => bug === name
  const everyone = uses.map((_, at) => at)
  const isLongTrust = (use: Actor['uses']) =>
    has(`the client trusts a ${use === 'lock' ? 'session' : 'lease'} for longer than the server does`)
  const trustOf = (use: Actor['uses']) => (use === 'lock' ? expiry : ttl) + (isLongTrust(use) ? 2 : -1)
  const isUnnotified = (actor: Actor) =>
    has('a leader is not notified that its term has ended') && actor.uses === 'lock'

  /** Whether the actor acts as the holder. */
  const believes = (actor: Actor) => actor.isAlive && actor.fence > 0 && (actor.trust > 0 || isUnnotified(actor))

  /** Whether the actor acts as the holder, or will when it receives a response. */
  const mayHold = (actor: Actor) => believes(actor) || (actor.request?.fence ?? 0) > 0

  // What the server does.

  /** `advance_fence`: begins a generation if the server is not the one that the row describes. */
  function noticeServer(state: State) {
    if (state.isNoticed) return
    state.isNoticed = true
    const { tables } = state
    tables.began = 0
    tables.instances = tables.instances.map((one) => (one === 'current' ? 'earlier' : one))
    // The clock and the margin exceed all fences that were ever granted, see decision 4.
    if (!has('neither the clock nor the tables determine where numbers continue after a restore')) {
      tables.fence = Math.max(tables.fence, state.granted) + 1
    }
  }

  /** The view `settled_server`, and `grace_left`. */
  function isSettled({ isNoticed, tables }: State) {
    if (has('new instances do not wait for earlier instances after a restart')) return true
    const isOver = tables.began >= expiry && !has('a server generation never settles')
    return isNoticed && (isOver || !tables.instances.includes('earlier'))
  }

  /** `nextval`, directly before the grant. */
  function nextFence(state: State) {
    const fence = ++state.tables.fence
    if (fence <= state.granted) state.wrong = `the fence of a later hold is not larger than all earlier fences`
    state.granted = Math.max(state.granted, fence)
    return fence
  }

  const isLocked = ({ sessions }: State) => sessions.some((one) => one !== null && one.lock !== 'none')

  function endSession(state: State, at: number) {
    const actor = state.actors[at]!
    state.sessions[at] = null
    if (actor.uses === 'lock' && actor.request && actor.request.stage !== 'executed') actor.request = null
    if (actor.write) actor.write.isSessionGone = true
  }

  /** All connections break. Nothing that was sent and not executed arrives. */
  function endAllSessions(state: State) {
    for (const at of everyone) {
      endSession(state, at)
      const actor = state.actors[at]!
      if (actor.request?.what === 'acquire') actor.release = { token: actor.token, fence: 0 }
      actor.request = null
      actor.write = null
    }
    state.isNoticed = false
  }

  // What a client does.

  function loseHold(actor: Actor) {
    actor.trust = 0
    if (!isUnnotified(actor)) actor.fence = 0
    actor.isReady = false
  }

  // The steps.

  const step = (text: string, state: State): Step<State> => ({ text, to: normalize(state) })

  /** The steps of an action that each actor can take. */
  function each(
    name: string,
    sql: readonly Sql[],
    isPossible: (actor: Actor, state: State, at: number) => boolean,
    act: (state: State, actor: Actor, at: number) => string,
  ): Action<State> {
    return {
      name,
      sql,
      steps: (from) =>
        everyone
          .filter((at) => isPossible(from.actors[at]!, from, at))
          .map((at) => {
            const to = copy(from)
            return step(`${names[at]}: ${act(to, to.actors[at]!, at)}`, to)
          }),
    }
  }

  /** A fault that each actor can have. */
  function fault(
    name: HoldFault,
    isPossible: (actor: Actor, state: State, at: number) => boolean,
    act: (state: State, actor: Actor, at: number) => string,
  ): Action<State> {
    return each(
      name,
      [],
      (actor, state, at) => state.faults > 0 && kinds.includes(name) && isPossible(actor, state, at),
      (state, actor, at) => {
        state.faults--
        return act(state, actor, at)
      },
    )
  }

  /** A fault of the server. */
  function serverFault(name: HoldFault, act: (state: State) => string): Action<State> {
    return {
      name,
      sql: [],
      steps: (from) => {
        if (from.faults === 0 || !kinds.includes(name)) return []
        const to = copy(from)
        to.faults--
        return [step(act(to), to)]
      },
    }
  }

  const usesLock = ({ uses: use, isAlive }: Actor) => use === 'lock' && isAlive
  const usesLease = ({ uses: use, isAlive }: Actor) => use === 'lease' && isAlive
  const isSent = (actor: Actor, what: Request['what']) => actor.request?.what === what && actor.request.stage === 'sent'
  const send = (actor: Actor, what: Request['what']) => {
    actor.request = { what, age: 0, stage: 'sent', fence: 0 }
  }
  const respond = (actor: Actor, fence: number) => {
    Object.assign(actor.request!, { stage: 'executed', fence })
  }
  /** A statement of a session that is older than a restore fails. The client then gives up the session. */
  const respondIn = (state: State, at: number, fence: () => number) => {
    const one = state.sessions[at]!
    one.idle = 0
    if (!one.isFromBefore) return respond(state.actors[at]!, fence())
    state.actors[at]!.request = null
    loseHold(state.actors[at]!)
  }

  const actions: Action<State>[] = [
    each(
      'begin an epoch',
      [
        [functions, 'holdfast.advance_fence'],
        [session, 'claim_number'],
        [instance, 'record_session'],
        [session, 'end_old_session'],
      ],
      (actor) => usesLock(actor) && actor.trust === 0,
      (state, actor, at) => {
        endSession(state, at)
        noticeServer(state)
        state.sessions[at] = { idle: 0, lock: 'none', seen: 0, isFromBefore: false }
        state.tables.instances[at] = 'current'
        Object.assign(actor, { trust: trustOf('lock'), isReady: false, request: null })
        return 'opens a session and begins an epoch'
      },
    ),
    each(
      'wait for the grace period',
      [
        [instance, 'grace_left'],
        [functions, 'holdfast.settled_server'],
      ],
      (actor, state, at) => usesLock(actor) && actor.trust > 0 && !actor.isReady && state.sessions[at] !== null,
      (state, actor, at) => {
        state.sessions[at]!.idle = 0
        actor.trust = trustOf('lock')
        actor.isReady = isSettled(state)
        return actor.isReady
          ? 'may acquire locks, because the grace period is over'
          : 'has to wait for the grace period'
      },
    ),
    // An instance holds a lock on its anchor or on a wait connection. The anchor can detect the change before the session of the lock does.
    each(
      'begin an epoch on another session',
      [
        [functions, 'holdfast.advance_fence'],
        [instance, 'record_session'],
      ],
      (actor, state, at) =>
        usesLock(actor) && actor.trust > 0 && (!state.isNoticed || state.tables.instances[at] !== 'current'),
      (state, actor, at) => {
        noticeServer(state)
        state.tables.instances[at] = 'current'
        if (has('a new epoch keeps the locks of other sessions')) return 'begins an epoch on another session'
        actor.request = null
        loseHold(actor)
        return 'begins an epoch on another session, and gives up the sessions of the earlier server'
      },
    ),
    each(
      'request the lock',
      [],
      (actor) => usesLock(actor) && actor.isReady && actor.trust > 0 && actor.fence === 0 && !actor.request,
      (_, actor) => {
        send(actor, 'try')
        return 'requests the lock'
      },
    ),
    each(
      'acquire the advisory lock',
      [[lockFile, 'try_one']],
      (actor, state, at) => isSent(actor, 'try') && state.sessions[at] !== null,
      (state, actor, at) => {
        const one = state.sessions[at]!
        one.seen = state.tables.lease?.expiresIn ?? 0
        if (!has('a lease is checked before the lock is granted')) {
          if (isLocked(state)) {
            respondIn(state, at, () => 0)
            return 'finds the name locked'
          }
          one.lock = 'checking'
        }
        actor.request!.stage = 'running'
        return 'acquires the advisory lock, and has not checked yet whether the name is leased'
      },
    ),
    each(
      'check for a lease and draw the fence',
      [
        [lockFile, 'try_one'],
        [leaseFunctions, 'holdfast.is_leased'],
        [functions, 'holdfast.expiry_clock'],
      ],
      (actor) => actor.request?.what === 'try' && actor.request.stage === 'running',
      (state, _, at) => {
        const one = state.sessions[at]!
        const readsTooEarly =
          has('the clock is read after the row of a lease') || has('a lease is checked before the lock is granted')
        let isFree = (readsTooEarly ? one.seen : (state.tables.lease?.expiresIn ?? 0)) === 0
        if (has('a lock is granted without a check for a lease of the name')) isFree = true
        if (has('a lease is checked before the lock is granted') && isLocked(state)) isFree = false
        one.lock = isFree && !one.isFromBefore ? 'held' : 'none'
        one.seen = 0
        respondIn(state, at, () => (isFree ? nextFence(state) : 0))
        return isFree ? 'is granted the lock by the server' : 'finds the name leased, and releases the advisory lock'
      },
    ),
    each(
      'send a heartbeat',
      [],
      (actor) => usesLock(actor) && actor.trust > 0 && actor.fence > 0 && !actor.request,
      (_, actor) => {
        send(actor, 'heartbeat')
        return 'sends a heartbeat'
      },
    ),
    each(
      'execute a heartbeat',
      [
        [session, 'heartbeat_with_generation'],
        [functions, 'holdfast.generation_began'],
      ],
      (actor, state, at) => isSent(actor, 'heartbeat') && state.sessions[at] !== null,
      (state, _, at) => {
        respondIn(state, at, () => 0)
        return 'is alive, because the server executes its heartbeat'
      },
    ),
    each(
      'send an unlock',
      [],
      (actor) => usesLock(actor) && believes(actor) && actor.trust > 0 && !actor.request,
      (_, actor) => {
        actor.fence = 0
        send(actor, 'unlock')
        return 'releases the lock, and no longer acts as the holder'
      },
    ),
    each(
      'unlock',
      [[lockFile, 'release_one']],
      (actor, state, at) => isSent(actor, 'unlock') && state.sessions[at] !== null,
      (state, _, at) => {
        state.sessions[at]!.lock = 'none'
        respondIn(state, at, () => 0)
        return 'has released the lock on the server'
      },
    ),
    each(
      'request a lease',
      [],
      (actor) => usesLease(actor) && actor.fence === 0 && !actor.request && !actor.release,
      (state, actor) => {
        actor.token = ++state.tokens
        send(actor, 'acquire')
        return 'requests a lease'
      },
    ),
    each(
      'acquire a lease',
      [
        [leaseFunctions, 'holdfast.acquire_lease'],
        [leaseFunctions, 'holdfast.acquire_leases'],
        [functions, 'holdfast.grace_is_over'],
        [functions, 'holdfast.generation'],
      ],
      (actor) => isSent(actor, 'acquire'),
      (state, actor, at) => {
        noticeServer(state)
        const { lease } = state.tables
        const early = has('a lease is granted again shortly before it expires') ? 2 : 0
        const isFree = isSettled(state) && !isLocked(state) && (lease === null || lease.expiresIn <= early)
        if (!isFree) {
          respond(actor, 0)
          return 'is refused the lease'
        }
        const fence = nextFence(state)
        state.tables.lease = { holder: at, token: actor.token, fence, expiresIn: ttl }
        respond(actor, fence)
        return 'is granted the lease by the server'
      },
    ),
    each(
      'request a renewal',
      [],
      (actor) => usesLease(actor) && believes(actor) && !actor.request,
      (_, actor) => {
        send(actor, 'renew')
        return 'requests a renewal of its lease'
      },
    ),
    each(
      'renew a lease',
      [[leaseFile, 'renew_leases']],
      (actor) => isSent(actor, 'renew'),
      (state, actor) => {
        const { lease } = state.tables
        const isRenewed = lease !== null && lease.token === actor.token && lease.expiresIn > 0
        if (isRenewed) lease.expiresIn = ttl
        respond(actor, Number(isRenewed))
        return isRenewed ? 'has its lease renewed by the server' : 'no longer has a lease to renew'
      },
    ),
    each(
      'send the release of a lease',
      [],
      (actor) => usesLease(actor) && believes(actor) && !actor.request && !actor.release,
      (_, actor) => {
        actor.release = { token: actor.token, fence: actor.fence }
        Object.assign(actor, { fence: 0, trust: 0 })
        return 'releases its lease, and no longer acts as the holder'
      },
    ),
    each(
      'release a lease',
      [
        [leaseFunctions, 'holdfast.release_lease'],
        [leaseFunctions, 'holdfast.release_leases'],
      ],
      (actor) => actor.release !== null,
      (state, actor) => {
        const { token, fence } = actor.release!
        const { lease } = state.tables
        const isHolder = lease !== null && lease.token === token && (fence === 0 || lease.fence === fence)
        const isReleased = isHolder || has('a lease is released without a check of its holder')
        if (isReleased) state.tables.lease = null
        actor.release = null
        return isReleased ? 'has released the lease on the server' : 'releases a lease that it no longer has'
      },
    ),
    each(
      'receive a response',
      [],
      (actor) => actor.isAlive && actor.request?.stage === 'executed',
      (_, actor) => {
        const { what, age, fence } = actor.request!
        const left = Math.max(0, trustOf(actor.uses) - age)
        actor.request = null
        if (what === 'acquire') {
          if (fence === 0) return 'receives the response that the name is taken'
          if (left === 0) {
            actor.release = { token: actor.token, fence }
            return 'receives its lease too late, and releases it'
          }
          Object.assign(actor, { fence, trust: left })
          return 'now holds the lease'
        }
        // A response after the client's own deadline is ignored.
        if (actor.trust === 0) return 'ignores a response that is too late'
        if (what === 'renew' && fence === 0) {
          loseHold(actor)
          return 'receives the response that its lease is lost'
        }
        actor.trust = Math.max(actor.trust, left)
        if (what !== 'try') return 'receives the response'
        actor.fence = fence
        return fence === 0 ? 'receives the response that the name is taken' : 'now holds the lock'
      },
    ),
    each(
      'detect the end of the session',
      [],
      (actor, state, at) => usesLock(actor) && actor.trust > 0 && state.sessions[at] === null,
      (_, actor) => {
        actor.request = null
        loseHold(actor)
        return 'detects that its session has ended'
      },
    ),
    each(
      'send a guarded write',
      [],
      (actor) => hasWrites && believes(actor) && !actor.write,
      (state, actor, at) => {
        actor.write = { fence: actor.fence, isSessionGone: actor.uses === 'lock' && state.sessions[at] === null }
        return 'sends a write that its fence guards'
      },
    ),
    each(
      'execute a guarded write',
      [
        [functions, 'holdfast.guard_key'],
        [leaseFunctions, 'holdfast.guard_lease'],
        [lockFile, 'guard'],
        [leaseFile, 'guard'],
      ],
      (actor) => actor.write !== null,
      (state, actor) => {
        const { fence, isSessionGone } = actor.write!
        const { tables } = state
        const isHolder =
          actor.uses === 'lock'
            ? !isSessionGone
            : tables.lease !== null && tables.lease.fence === fence && tables.lease.expiresIn > 0
        const isGuarded = !has('the guard does not compare fences')
        actor.write = null
        if (isGuarded && (fence < tables.guard || !isHolder)) return 'has its write refused, because its fence is stale'
        if (fence < tables.written) state.wrong = 'a guarded write replaces the write of a later holder'
        tables.guard = Math.max(tables.guard, fence)
        tables.written = fence
        return 'has its write executed'
      },
    ),
    {
      name: 'let a tick pass',
      sql: [],
      steps: (from) => [step('A tick of the clock passes.', tick(copy(from)))],
    },
    each(
      'end a silent session',
      [],
      (actor, state, at) =>
        state.sessions[at] !== null &&
        actor.request?.stage !== 'running' &&
        (state.sessions[at]!.idle >= expiry || actor.trust === 0 || !actor.isAlive),
      (state, actor, at) => {
        const isSilent = state.sessions[at]!.idle >= expiry
        endSession(state, at)
        if (!actor.isAlive) return 'is dead, and the server ends its session'
        return isSilent
          ? 'has been silent, and the server ends its session'
          : 'has closed its socket, and the server ends its session'
      },
    ),
    {
      name: 'replicate',
      sql: [],
      steps: (from) => {
        if (from.faults === 0) return []
        const to = copy(from)
        to.standby = copy(to.tables)
        return [step('The standby receives all commits.', to)]
      },
    },
    fault(
      'kill',
      (actor) => actor.isAlive,
      (_, actor) => {
        actor.isAlive = false
        return 'is killed'
      },
    ),
    fault(
      'lose a response',
      (actor) => actor.isAlive && actor.request?.stage === 'executed',
      (_, actor) => {
        const { what } = actor.request!
        actor.request = null
        if (actor.uses === 'lock') loseHold(actor)
        else if (what === 'acquire') actor.release = { token: actor.token, fence: 0 }
        return actor.uses === 'lock' ? 'loses a response, and gives up its session' : 'loses a response'
      },
    ),
    fault(
      'lose the response to a release',
      (actor) => actor.isAlive && actor.release !== null,
      (state, actor) => {
        const { token, fence } = actor.release!
        const { lease } = state.tables
        if (lease?.token === token && (fence === 0 || lease.fence === fence)) state.tables.lease = null
        return 'has released the lease on the server, but loses the response, and sends the release again'
      },
    ),
    fault(
      'terminate a session',
      (_, state, at) => state.sessions[at] !== null,
      (state, actor, at) => {
        endSession(state, at)
        actor.isExcluded = mayHold(actor)
        return 'has its session ended by an administrator'
      },
    ),
    serverFault('restart the server', (state) => {
      endAllSessions(state)
      // The fences that were drawn last were not flushed.
      state.tables.fence = Math.min(state.tables.fence, state.standby.fence)
      return 'The server crashes and restarts, and forgets its last fences.'
    }),
    serverFault('fail over with all commits', (state) => {
      endAllSessions(state)
      return 'The standby, which has all commits, is promoted.'
    }),
    serverFault('fail over without the last commits', (state) => {
      endAllSessions(state)
      for (const [at, actor] of state.actors.entries()) {
        const [before, after] = [state.tables, state.standby]
        const isKept =
          actor.uses === 'lock'
            ? after.instances[at] === before.instances[at]
            : after.lease?.token === before.lease?.token &&
              (after.lease?.expiresIn ?? 0) >= (before.lease?.expiresIn ?? 0)
        actor.isExcluded ||= mayHold(actor) && !isKept
      }
      state.tables = copy(state.standby)
      return 'The standby, which lacks the last commits, is promoted.'
    }),
    serverFault('restore a backup', (state) => {
      for (const actor of state.actors) actor.isExcluded = mayHold(actor)
      for (const one of state.sessions) if (one) one.isFromBefore = true
      state.tables = tablesWith(
        uses.map(() => 'none'),
        expiry,
      )
      state.standby = copy(state.tables)
      state.isNoticed = has('a restore is not detected')
      return 'The backup of the empty database is restored.'
    }),
  ]

  function tick(state: State) {
    for (const actor of state.actors) {
      if (actor.trust > 0 && --actor.trust === 0) loseHold(actor)
      if (actor.request) actor.request.age = Math.min(trustOf(actor.uses), actor.request.age + 1)
    }
    for (const one of state.sessions) {
      if (!one) continue
      one.idle = Math.min(expiry, one.idle + 1)
      one.seen = Math.max(0, one.seen - 1)
    }
    for (const { lease } of [state.tables, state.standby]) if (lease) lease.expiresIn = Math.max(0, lease.expiresIn - 1)
    for (const tables of [state.tables, state.standby]) tables.began = Math.min(expiry, tables.began + 1)
    return state
  }

  /** Whether another instance can get the name after all actors have become silent. */
  function violationAtRest(from: State): string | undefined {
    const state = copy(from)
    for (let ticks = 0; ticks < expiry + ttl; ticks++) {
      for (const at of everyone) if (state.sessions[at]?.lock === 'checking') state.sessions[at].lock = 'held'
      tick(state)
      for (const at of everyone) if ((state.sessions[at]?.idle ?? 0) >= expiry) endSession(state, at)
      noticeServer(state)
    }
    const isFree = isSettled(state) && !isLocked(state) && (state.tables.lease?.expiresIn ?? 0) === 0
    return isFree ? undefined : 'a free name cannot be acquired'
  }

  return {
    name: `holds by ${uses.map((use, at) => `${names[at]} (${use})`).join(', ')}, ${countOf(faults)}`,
    initial: normalize({
      actors: uses.map((use) => ({
        uses: use,
        isAlive: true,
        isReady: use === 'lock',
        trust: use === 'lock' ? trustOf('lock') : 0,
        fence: 0,
        token: 0,
        request: null,
        release: null,
        write: null,
        isExcluded: false,
      })),
      sessions: uses.map((use) => (use === 'lock' ? { idle: 0, lock: 'none', seen: 0, isFromBefore: false } : null)),
      tables: firstTables(uses, expiry),
      standby: firstTables(uses, expiry),
      isNoticed: true,
      granted: 0,
      tokens: 0,
      faults,
      wrong: null,
    }),
    actions,
    violation: ({ wrong, actors }) => {
      if (wrong !== null) return wrong
      const holders = actors.filter((actor) => believes(actor) && !actor.isExcluded)
      return holders.length > 1 ? 'two holders act at the same time' : undefined
    },
    violationAtRest,
    show: ({ actors, tables, sessions }) =>
      [
        ...actors.map((actor, at) => {
          const doing = believes(actor) ? `holds with fence ${actor.fence} for ${actor.trust} more` : 'does not hold'
          return `${names[at]} ${actor.isAlive ? doing : 'is dead'}`
        }),
        ...sessions.flatMap((one, at) => (one && one.lock !== 'none' ? [`the server has a lock of ${names[at]}`] : [])),
        ...(tables.lease ? [`the lease of ${names[tables.lease.holder]} expires in ${tables.lease.expiresIn}`] : []),
      ].join(' · '),
  }

  /** Removes differences between states that no rule depends on. */
  function normalize(state: State): State {
    if (state.faults === 0) state.standby = noTables
    for (const actor of state.actors) {
      if (!mayHold(actor)) actor.isExcluded = false
      if (actor.fence === 0 && !actor.request) actor.token = 0
    }
    // Only the order of fences and tokens counts. Without this, the numbers would grow without limit.
    replaceByRank((visit) => visitFences(state, visit))
    state.tokens = 0
    state.tokens = replaceByRank((visit) => visitTokens(state, visit))
    return state
  }
}

function tablesWith(instances: Tables['instances'], began: number): Tables {
  return { lease: null, fence: 0, guard: 0, written: 0, instances, began }
}

const firstTables = (uses: readonly Actor['uses'][], began: number) =>
  tablesWith(
    uses.map((use) => (use === 'lock' ? 'current' : 'none')),
    began,
  )
const noTables = tablesWith([], 0)

function visitFences(state: State, visit: (fence: number) => number) {
  for (const actor of state.actors) {
    actor.fence = visit(actor.fence)
    if (actor.request && actor.request.what !== 'renew') actor.request.fence = visit(actor.request.fence)
    if (actor.release) actor.release.fence = visit(actor.release.fence)
    if (actor.write) actor.write.fence = visit(actor.write.fence)
  }
  for (const tables of [state.tables, state.standby]) {
    tables.fence = visit(tables.fence)
    tables.guard = visit(tables.guard)
    tables.written = visit(tables.written)
    if (tables.lease) tables.lease.fence = visit(tables.lease.fence)
  }
  state.granted = visit(state.granted)
}

function visitTokens(state: State, visit: (token: number) => number) {
  for (const actor of state.actors) {
    actor.token = visit(actor.token)
    if (actor.release) actor.release.token = visit(actor.release.token)
  }
  for (const { lease } of [state.tables, state.standby]) if (lease) lease.token = visit(lease.token)
}

/** Replaces numbers by their rank. 0 stays 0. Returns the largest rank. */
function replaceByRank(visitAll: (visit: (number: number) => number) => void): number {
  const all = [0]
  visitAll((number) => {
    if (!all.includes(number)) all.push(number)
    return number
  })
  all.sort((a, b) => a - b)
  visitAll((number) => all.indexOf(number))
  return all.length - 1
}
