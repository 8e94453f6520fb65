// The protocol of jobs in one queue: enqueueing in transactions that commit late, claims through windows, ends, takeovers, crash counts, failover
// and restored backups. README.md describes the rules, the bounds, and what the model leaves out.
import { type Action, copy, countOf, type Model, type Sql, type Step } from './explore.ts'
import { type Entry, type Frontier, nextWindow, noFrontier, readWindow, type Snapshot } from './windows.ts'

/** The crash that buries a job. */
const maxCrashes = 2

/** Bugs that can be planted. The names are those in mutations.ts, where it has the bug. */
export const jobBugs = [
  'a window skips late commits',
  'the frontier is read before the lock',
  'a worker ends a job that another worker has taken over',
  'a takeover forgets a job',
  'restored jobs keep the transaction ids of another cluster',
  'a live instance counts as dead',
  'a window contains entries that were committed after it was opened',
  'a takeover does not wait for a claim in progress',
  'an end is recorded without a check for an earlier end',
  'a crash counts for all jobs of the claim',
  'a claim is deleted although a job remains',
  'a lane runs one job too many',
  'a job that a takeover returns never gives its room back',
] as const
export type JobBug = (typeof jobBugs)[number]

interface Claim {
  fence: number
  epoch: number
  jobs: number[]
  /** Jobs with the note that they have started (`job_note.started`). */
  started: number[]
}

interface End {
  fence: number
  job: number
  isDone: boolean
}

/** Everything that is written to disk and replicated. */
interface Tables {
  era: number
  /** Whether the tables were restored, and `advance_fence` has not noticed it (`is_another_cluster`). */
  isElsewhere: boolean
  nextXid: number
  nextEntry: number
  fence: number
  entries: Entry[]
  /** Jobs of the lane that have not been admitted. The rows of `waiting`. */
  waiting: { job: number; xid: number; isCommitted: boolean }[]
  /** Jobs that have been admitted to the lane (`lane.active`), and those of them that have left (`follow_up`). */
  active: number
  followUps: number
  frontier: Frontier
  claims: Claim[]
  ends: End[]
  buried: number[]
  /** Epochs with a row in `worker`. */
  workers: number[]
  /** For each job, the fence of the claim that owns it, or 0. Not known to the protocol. */
  owners: number[]
}

interface HeldJob {
  job: number
  fence: number
  isSuspect: boolean
  isStarted: boolean
  /** Whether the handler has returned. */
  isOver: boolean
  /** Step that is left to do after a commit: delete the claim, or record a failure, because the response to the commit was lost. */
  left: 'nothing' | 'delete' | 'fail'
}

interface Claiming {
  epoch: number
  era: number
  stage: 'waiting' | 'reading' | 'committed'
  frontier: Frontier
  hasChanged: boolean
  jobs: Entry[]
  fence: number
}

interface Worker {
  isAlive: boolean
  epoch: number
  /** Whether the worker relies on its presence. */
  isTrusted: boolean
  claiming: Claiming | null
  held: HeldJob[]
  /** Fence of a claim whose response was lost. The worker knows its token. */
  unreceived: number
  /** Open transaction of a handler that has recorded the outcome. */
  tx: { job: number; fence: number } | null
}

interface State {
  /** Transactions that have not begun yet: the number of jobs that each of them enqueues. */
  planned: number[]
  workers: Worker[]
  /** Epochs whose session exists. */
  present: number[]
  epochs: number
  tables: Tables
  standby: Tables | null
  backup: Tables | null
  isNoticed: boolean
  /** Largest fence that was ever drawn. */
  drawn: number
  /** How often each job was running when its worker crashed. */
  suffered: number[]
  faults: number
  wrong: string | null
}

export interface JobsOptions {
  readonly workers: number
  /** Number of jobs in each enqueueing transaction. */
  readonly transactions: readonly number[]
  /** Maximum number of jobs in a claim. */
  readonly claims: number
  /** The limit of the lane to which all jobs belong. 0: they belong to no lane. */
  readonly lane: number
  readonly faults: number
  /** The faults that can occur. */
  readonly kinds: readonly JobFault[]
  readonly bug?: JobBug | undefined
}

export const jobFaults = ['kill', 'freeze', 'response', 'return', 'rollback', 'restart', 'failover', 'restore'] as const
export type JobFault = (typeof jobFaults)[number]

const names = ['A', 'B', 'C']
const functions = 'jobs/functions.sql'
const statements = 'jobs/jobs.sql'
const ofServer = 'postgres/functions.sql'

export function jobs({ workers, transactions, claims: maxClaim, lane, faults, kinds, bug }: JobsOptions): Model<State> {
  const has = (name: JobBug) => bug === name
  const everyone = Array.from({ length: workers }, (_, at) => at)
  const allJobs = Array.from({ length: transactions.reduce((sum, count) => sum + count, 0) }, (_, job) => job)
  const maxEpochs = workers + 1
  const windowBugs = {
    skipsLate: has('a window skips late commits'),
    readsBeyond: has('a window contains entries that were committed after it was opened'),
  }

  // What the server does.

  function snapshot({ nextXid, entries, waiting }: Tables): Snapshot {
    const rows = [...entries, ...waiting]
    return { xmax: nextXid, inProgress: [...new Set(rows.filter((row) => !row.isCommitted).map(({ xid }) => xid))] }
  }

  function insertEntry(
    state: State,
    job: number,
    xid: number,
    more: Pick<Entry, 'crashes' | 'isCommitted' | 'hasLane'>,
  ) {
    const { tables } = state
    const keepsEra = has('restored jobs keep the transaction ids of another cluster')
    // job_era
    const era = tables.era + Number(tables.isElsewhere && !keepsEra)
    tables.entries.push({ job, entry: tables.nextEntry++, xid, era, ...more })
  }

  /** `advance_fence` */
  function noticeServer(state: State) {
    if (state.isNoticed) return
    state.isNoticed = true
    const { tables } = state
    tables.fence = Math.max(tables.fence, state.drawn)
    if (tables.isElsewhere && !has('restored jobs keep the transaction ids of another cluster')) tables.era++
    tables.isElsewhere = false
  }

  /** The view `settled_server`. The model of holds contains the details of the grace period. */
  const isSettled = ({ isNoticed, workers: all, present }: State) =>
    isNoticed && all.every(({ isAlive, isTrusted, epoch }) => !isAlive || !isTrusted || present.includes(epoch))

  const hasEnded = ({ ends }: Tables, job: number, fence: number) =>
    ends.some((end) => end.job === job && end.fence === fence)

  const claimOf = ({ claims }: Tables, job: number, fence: number) =>
    claims.find((claim) => claim.fence === fence && claim.jobs.includes(job))

  /** Whether another transaction has locked the row of the claim. */
  const isLocked = ({ workers: all }: State, fence: number, except = -1) =>
    all.some(({ tx }, at) => at !== except && tx?.fence === fence)

  /** Whether an outcome of the job is accepted (`job_note_ends`, `job_end`). */
  function isAccepted(tables: Tables, job: number, fence: number) {
    if (!claimOf(tables, job, fence)) return false
    return !hasEnded(tables, job, fence) || has('an end is recorded without a check for an earlier end')
  }

  function noteEnd(state: State, job: number, fence: number, isDone: boolean) {
    const { tables } = state
    if (tables.owners[job] !== fence) state.wrong = 'a worker has ended a job that it no longer owns'
    tables.ends.push({ fence, job, isDone })
    tables.owners[job] = 0
    if (isDone) leaveLane(tables, job)
  }

  /** `job_release_links`: the follow-up commits together with the end. */
  function leaveLane(tables: Tables, job: number) {
    if (newestEntry(tables, job).hasLane) tables.followUps++
  }

  /** `job_run_follow_ups`: removes the jobs that have left the lane, and admits the next ones. Returns the number of admitted jobs. */
  function runFollowUps(state: State) {
    const { tables } = state
    const room = has('a lane runs one job too many') ? lane + 1 : lane
    tables.active -= tables.followUps
    tables.followUps = 0
    const admitted = tables.waiting.filter(({ isCommitted }) => isCommitted).slice(0, Math.max(0, room - tables.active))
    if (admitted.length === 0) return 0
    tables.waiting = tables.waiting.filter((one) => !admitted.includes(one))
    tables.active += admitted.length
    const xid = tables.nextXid++
    for (const one of admitted) insertEntry(state, one.job, xid, { crashes: 0, isCommitted: true, hasLane: true })
    return admitted.length
  }

  /** `job_delete_claims` */
  function deleteClaim(tables: Tables, fence: number) {
    tables.claims = tables.claims.filter(
      (claim) =>
        claim.fence !== fence ||
        (!has('a claim is deleted although a job remains') &&
          claim.jobs.some((job) => !hasEnded(tables, job, claim.fence))),
    )
  }

  /** `job_done`. Returns whether the outcome was accepted. */
  function done(state: State, job: number, fence: number, isLastOfClaim: boolean) {
    const { tables } = state
    // The fast path does not look for earlier ends. It relies on the client, which never sends this statement after a commit.
    const isFast = isLastOfClaim && tables.claims.some((one) => one.fence === fence && one.jobs.length === 1)
    const isUnchecked = has('a worker ends a job that another worker has taken over')
    const isKnown = tables.ends.some((end) => end.job === job && end.fence === fence && end.isDone)
    const accepts = isFast || (isUnchecked ? !isKnown : isAccepted(tables, job, fence))
    if (accepts) noteEnd(state, job, fence, true)
    if (isFast) tables.claims = tables.claims.filter((one) => one.fence !== fence)
    else if (isLastOfClaim) deleteClaim(tables, fence)
    return accepts
  }

  const newestEntry = ({ entries }: Tables, job: number) => entries.findLast((one) => one.job === job)!

  /** `job_end` for jobs that return to their queue, or whose worker has crashed. */
  function returnJobs(state: State, asked: readonly number[], fence: number, isCrash: boolean) {
    const { tables } = state
    const xid = tables.nextXid++
    for (const job of asked) {
      if (!isAccepted(tables, job, fence)) continue
      const { crashes, hasLane } = newestEntry(tables, job)
      const hasStarted = claimOf(tables, job, fence)?.started.includes(job) ?? false
      const countsForAll = crashes === 0 || has('a crash counts for all jobs of the claim')
      const charge = Number(isCrash && (countsForAll || hasStarted))
      noteEnd(state, job, fence, false)
      if (crashes + charge >= maxCrashes) {
        tables.buried.push(job)
        leaveLane(tables, job)
        if (state.suffered[job]! < maxCrashes - 1) state.wrong = 'a job is buried that has not killed its workers'
      } else {
        const keepsLane = hasLane && !has('a job that a takeover returns never gives its room back')
        insertEntry(state, job, xid, { crashes: crashes + charge, isCommitted: true, hasLane: keepsLane })
      }
    }
  }

  /** `job_take_over` */
  function takeOver(state: State, epoch: number) {
    const { tables } = state
    for (const claim of tables.claims.filter((one) => one.epoch === epoch)) {
      returnJobs(state, has('a takeover forgets a job') ? claim.jobs.slice(1) : claim.jobs, claim.fence, true)
    }
    tables.claims = tables.claims.filter((one) => one.epoch !== epoch)
    tables.workers = tables.workers.filter((one) => one !== epoch)
  }

  /** Opens the next window, if the last one has been read. The claim has the lock. */
  function openWindow(state: State, claiming: Claiming) {
    const { frontier } = claiming
    if (frontier.isRead) claiming.frontier = nextWindow(frontier, claiming.era, snapshot(state.tables))
    else claiming.hasChanged = true
  }

  /** Reads a window. Returns whether the claim is complete, and has written its rows. */
  function readEntries(state: State, claiming: Claiming) {
    const { tables } = state
    const unread = maxClaim - claiming.jobs.length
    const { frontier, taken } = readWindow(claiming.frontier, tables.entries, unread, windowBugs)
    claiming.frontier = frontier
    claiming.jobs.push(...taken)
    const isNewest = frontier.era === claiming.era
    claiming.hasChanged ||= taken.length > 0 || !isNewest
    if (claiming.jobs.length < maxClaim && !(frontier.isRead && isNewest)) {
      openWindow(state, claiming)
      return false
    }
    // With the bug, the insert of a row with the same number does nothing.
    const number = frontier.number + 1
    if (claiming.hasChanged && tables.frontier.number < number) tables.frontier = { ...frontier, number }
    if (claiming.jobs.length > 0) {
      claiming.fence = ++tables.fence
      state.drawn = Math.max(state.drawn, claiming.fence)
      const ids = claiming.jobs.map(({ job }) => job)
      tables.claims.push({ fence: claiming.fence, epoch: claiming.epoch, jobs: ids, started: [] })
      for (const id of ids) {
        if (isEnded(tables, id)) state.wrong = 'a job is claimed that has ended'
        if (tables.owners[id] !== 0) state.wrong = 'a job is claimed that a claim already owns'
        tables.owners[id] = claiming.fence
      }
    }
    return true
  }

  const isEnded = ({ ends, buried }: Tables, job: number) =>
    buried.includes(job) || ends.some((end) => end.job === job && end.isDone)

  /** Ends all sessions and transactions. */
  function stopServer(state: State) {
    state.present = []
    state.isNoticed = false
    state.tables = withoutOpenTransactions(state.tables)
    for (const worker of state.workers) {
      worker.tx = null
      if (worker.claiming?.stage !== 'committed') worker.claiming = null
    }
  }

  // The steps.

  const step = (text: string, to: State): Step<State> => {
    if (to.faults === 0) {
      to.standby = null
      to.backup = null
    }
    return { text, to }
  }

  function each(
    name: string,
    sql: readonly Sql[],
    isPossible: (worker: Worker, state: State, at: number) => boolean,
    act: (state: State, worker: Worker, at: number) => string,
  ): Action<State> {
    return {
      name,
      sql,
      steps: (from) =>
        everyone
          // Workers are interchangeable: B does nothing before A.
          .filter((at) => at === 0 || from.workers[at]!.epoch > 0 || from.workers[at - 1]!.epoch > 0)
          .filter((at) => isPossible(from.workers[at]!, from, at))
          .map((at) => {
            const to = copy(from)
            return step(`${names[at]}: ${act(to, to.workers[at]!, at)}`, to)
          }),
    }
  }

  /** The steps of an action with each job that a worker has claimed. */
  function eachHeld(
    name: string,
    sql: readonly Sql[],
    isPossible: (held: HeldJob, worker: Worker, state: State, at: number) => boolean,
    act: (state: State, held: HeldJob, worker: Worker, at: number) => string,
  ): Action<State> {
    return {
      name,
      sql,
      steps: (from) =>
        everyone.flatMap((at) =>
          from.workers[at]!.held.flatMap((held, place) => {
            if (!isPossible(held, from.workers[at]!, from, at)) return []
            const to = copy(from)
            const worker = to.workers[at]!
            return [step(`${names[at]}: ${act(to, worker.held[place]!, worker, at)}`, to)]
          }),
        ),
    }
  }

  const server = (
    name: string,
    sql: readonly Sql[],
    isPossible: (state: State) => boolean,
    act: (state: State) => string,
  ): Action<State> => ({
    name,
    sql,
    steps: (from) => {
      if (!isPossible(from)) return []
      const to = copy(from)
      return [step(act(to), to)]
    },
  })

  const canFail = ({ faults: left }: State, kind: JobFault) => left > 0 && kinds.includes(kind)
  const forget = (worker: Worker, held: HeldJob) => {
    worker.held = worker.held.filter((one) => one !== held)
  }
  const isLastOfClaim = ({ held }: Worker, { fence }: HeldJob) => held.filter((one) => one.fence === fence).length === 1
  const job = (number: number) => `job ${number + 1}`
  const count = (state: State) => {
    state.faults--
  }

  /** Counts a crash for each job that the worker is running. */
  function suffer(state: State, worker: Worker) {
    if (!worker.isTrusted) return
    for (const held of worker.held) if (held.isStarted) state.suffered[held.job]!++
  }

  const actions: Action<State>[] = [
    server(
      'enqueue in a transaction',
      [
        [functions, 'holdfast.job_enqueue'],
        [functions, 'holdfast.job_enqueue_waiting'],
        [functions, 'holdfast.job_era'],
      ],
      ({ planned }) => planned.length > 0,
      (state) => {
        const size = state.planned.shift()!
        const first = allJobs.length - size - state.planned.reduce((sum, other) => sum + other, 0)
        const xid = state.tables.nextXid++
        for (let id = first; id < first + size; id++) {
          if (lane > 0) state.tables.waiting.push({ job: id, xid, isCommitted: false })
          else insertEntry(state, id, xid, { crashes: 0, isCommitted: false, hasLane: false })
        }
        return `Transaction ${xid} enqueues ${size === 1 ? job(first) : `jobs ${first + 1} and ${first + 2}`}.`
      },
    ),
    {
      name: 'commit an enqueueing transaction',
      sql: [],
      steps: (from) =>
        snapshot(from.tables).inProgress.map((xid) => {
          const to = copy(from)
          for (const row of [...to.tables.entries, ...to.tables.waiting]) if (row.xid === xid) row.isCommitted = true
          return step(`Transaction ${xid} commits.`, to)
        }),
    },
    {
      name: 'roll back an enqueueing transaction',
      sql: [],
      steps: (from) =>
        canFail(from, 'rollback')
          ? snapshot(from.tables).inProgress.map((xid) => {
              const to = copy(from)
              count(to)
              const isKept = (row: { isCommitted: boolean; xid: number }) => row.isCommitted || row.xid !== xid
              to.tables.entries = to.tables.entries.filter(isKept)
              to.tables.waiting = to.tables.waiting.filter(isKept)
              return step(`Transaction ${xid} rolls back.`, to)
            })
          : [],
    },
    server(
      'admit jobs to the lane',
      [
        [functions, 'holdfast.job_run_follow_ups'],
        [functions, 'holdfast.job_admit'],
        [functions, 'holdfast.lane_enter'],
        [functions, 'holdfast.lane_admit'],
        [functions, 'holdfast.lane_fill'],
        [functions, 'holdfast.job_make_ready'],
        [functions, 'holdfast.job_release_links'],
      ],
      ({ tables }) => tables.followUps > 0 || (tables.active < lane && tables.waiting.some((one) => one.isCommitted)),
      (state) => `An instance runs the follow-ups, and admits ${runFollowUps(state)} jobs to the lane.`,
    ),
    each(
      'register a worker',
      [[statements, 'register_worker']],
      ({ isAlive, isTrusted, claiming, tx }, { epochs }) =>
        isAlive && !isTrusted && !claiming && !tx && epochs < maxEpochs,
      (state, worker) => {
        noticeServer(state)
        worker.epoch = ++state.epochs
        Object.assign(worker, { isTrusted: true, held: [], unreceived: 0 })
        state.present.push(worker.epoch)
        state.tables.workers.push(worker.epoch)
        return `begins epoch ${worker.epoch}, and registers as a worker`
      },
    ),
    each(
      'begin a claim',
      [
        [functions, 'holdfast.job_claim'],
        [ofServer, 'holdfast.settled_server'],
        [ofServer, 'holdfast.require_read_committed'],
      ],
      ({ isAlive, isTrusted, claiming, held, unreceived, epoch }, state) =>
        isAlive &&
        isTrusted &&
        !claiming &&
        held.length === 0 &&
        unreceived === 0 &&
        state.tables.workers.includes(epoch) &&
        isSettled(state) &&
        // A claim that finds nothing changes nothing.
        state.tables.entries.length > 0,
      (state, worker) => {
        worker.claiming = {
          epoch: worker.epoch,
          era: state.tables.era,
          stage: 'waiting',
          frontier: has('the frontier is read before the lock') ? state.tables.frontier : noFrontier,
          hasChanged: false,
          jobs: [],
          fence: 0,
        }
        return 'begins a claim, and waits for the lock on the claims of the queue'
      },
    ),
    each(
      'lock the claims and open a window',
      [
        [functions, 'holdfast.job_claim'],
        [functions, 'holdfast.job_next_window'],
      ],
      ({ claiming }, state) =>
        claiming?.stage === 'waiting' && state.workers.every((other) => other.claiming?.stage !== 'reading'),
      (state, { claiming }) => {
        claiming!.stage = 'reading'
        if (!has('the frontier is read before the lock')) claiming!.frontier = state.tables.frontier
        openWindow(state, claiming!)
        const { upto } = claiming!.frontier
        const open = upto.inProgress.length > 0 ? ` without ${upto.inProgress.join(' and ')}` : ''
        return `has the lock, and reads the window of the transactions below ${upto.xmax}${open}`
      },
    ),
    each(
      'read a window and commit the claim',
      [
        [functions, 'holdfast.job_claim'],
        [functions, 'holdfast.job_read_window'],
      ],
      ({ claiming }) => claiming?.stage === 'reading',
      (state, worker) => {
        const claiming = worker.claiming!
        if (!readEntries(state, claiming)) return 'has read the window, and opens the next one'
        claiming.stage = 'committed'
        const found = claiming.jobs.map((one) => job(one.job)).join(' and ')
        // The rows were only needed for the claim.
        claiming.frontier = noFrontier
        if (found === '') worker.claiming = null
        return found === '' ? 'finds no job' : `has claimed ${found} with fence ${claiming.fence}`
      },
    ),
    each(
      'receive a claim',
      [],
      ({ isAlive, claiming }) => isAlive && claiming?.stage === 'committed',
      (_, worker) => {
        const { jobs: claimed, fence } = worker.claiming!
        worker.claiming = null
        if (!worker.isTrusted) return 'receives its claim too late, and runs none of its jobs'
        worker.held = claimed.map((one) => ({
          job: one.job,
          fence,
          isSuspect: one.crashes > 0,
          isStarted: false,
          isOver: false,
          left: 'nothing',
        }))
        return 'receives its claim'
      },
    ),
    eachHeld(
      'start a job',
      [[statements, 'mark_started']],
      ({ isStarted }, { isAlive, isTrusted }) => isAlive && isTrusted && !isStarted,
      (state, held, worker) => {
        // Only a job that may have killed a worker needs a note before it starts.
        const claim = claimOf(state.tables, held.job, held.fence)
        if (held.isSuspect && !claim) {
          forget(worker, held)
          return `does not start ${job(held.job)}, because the claim is gone`
        }
        if (held.isSuspect) claim!.started.push(held.job)
        held.isStarted = true
        return `starts ${job(held.job)}`
      },
    ),
    eachHeld(
      'end a job',
      [
        [functions, 'holdfast.job_done'],
        [functions, 'holdfast.job_note_ends'],
        [functions, 'holdfast.job_delete_claims'],
      ],
      ({ isStarted, fence, left }, { isAlive, tx }, state) =>
        isAlive && !tx && isStarted && left === 'nothing' && !isLocked(state, fence),
      (state, held, worker) => {
        const accepts = done(state, held.job, held.fence, isLastOfClaim(worker, held))
        forget(worker, held)
        return `${accepts ? 'has ended' : 'is refused the end of'} ${job(held.job)} with fence ${held.fence}`
      },
    ),
    eachHeld(
      'lose the response to an end',
      [],
      ({ isStarted, fence, isOver }, { isAlive, tx }, state) =>
        canFail(state, 'response') && isAlive && !tx && isStarted && !isOver && !isLocked(state, fence),
      (state, held, worker) => {
        count(state)
        held.isOver = true
        const accepts = done(state, held.job, held.fence, isLastOfClaim(worker, held))
        return `${accepts ? 'has ended' : 'is refused the end of'} ${job(held.job)}, loses the response, and sends the end again`
      },
    ),
    eachHeld(
      'record an end in the transaction of the handler',
      [[functions, 'holdfast.job_done']],
      ({ isStarted, isOver, job: id, fence }, { isAlive, tx }, state) =>
        isAlive && !tx && isStarted && !isOver && !isLocked(state, fence) && isAccepted(state.tables, id, fence),
      (_, held, worker) => {
        held.isOver = true
        worker.tx = { job: held.job, fence: held.fence }
        return `records the end of ${job(held.job)} in the handler's transaction, and locks the claim`
      },
    ),
    each(
      'commit the transaction of the handler',
      [],
      ({ isAlive, tx }) => isAlive && tx !== null,
      (state, worker) => {
        const { job: id, fence } = worker.tx!
        worker.tx = null
        noteEnd(state, id, fence, true)
        for (const held of worker.held) if (held.job === id) held.left = 'delete'
        return `commits the handler's transaction with the end of ${job(id)}`
      },
    ),
    eachHeld(
      'delete a claim without jobs',
      [
        [functions, 'holdfast.job_end'],
        [functions, 'holdfast.job_delete_claims'],
      ],
      ({ left, fence }, { isAlive }, state) => isAlive && left === 'delete' && !isLocked(state, fence),
      (state, held, worker) => {
        if (isLastOfClaim(worker, held)) deleteClaim(state.tables, held.fence)
        forget(worker, held)
        return `has no more to do for ${job(held.job)}`
      },
    ),
    {
      name: 'lose the response to a commit',
      sql: [],
      steps: (from) =>
        everyone
          .filter((at) => canFail(from, 'response') && from.workers[at]!.isAlive && from.workers[at]!.tx)
          .flatMap((at) =>
            [true, false].map((isCommitted) => {
              const to = copy(from)
              const worker = to.workers[at]!
              const { job: id, fence } = worker.tx!
              count(to)
              worker.tx = null
              if (isCommitted) noteEnd(to, id, fence, true)
              for (const held of worker.held) if (held.job === id) held.left = 'fail'
              const outcome = isCommitted ? 'commits' : 'does not commit'
              return step(`${names[at]}: ${outcome} the end of ${job(id)}, and does not receive the response`, to)
            }),
          ),
    },
    eachHeld(
      'record a failure after a commit without a response',
      [[functions, 'holdfast.job_end']],
      ({ left, fence }, { isAlive }, state) => isAlive && left === 'fail' && !isLocked(state, fence),
      (state, held, worker) => {
        returnJobs(state, [held.job], held.fence, false)
        if (isLastOfClaim(worker, held)) deleteClaim(state.tables, held.fence)
        forget(worker, held)
        return `requests that ${job(held.job)} returns to the queue, unless it has ended`
      },
    ),
    each(
      'roll back the transaction of a dead handler',
      [],
      ({ isAlive, tx }) => !isAlive && tx !== null,
      (_, worker) => {
        worker.tx = null
        return 'is dead, and the server rolls back its transaction'
      },
    ),
    eachHeld(
      'return a job',
      [[functions, 'holdfast.job_end']],
      ({ fence, isOver }, { isAlive, tx }, state) =>
        canFail(state, 'return') && isAlive && !tx && !isOver && !isLocked(state, fence),
      (state, held, worker) => {
        count(state)
        returnJobs(state, [held.job], held.fence, false)
        if (isLastOfClaim(worker, held)) deleteClaim(state.tables, held.fence)
        forget(worker, held)
        return `returns ${job(held.job)} to the queue`
      },
    ),
    each(
      'lose the response to a claim',
      [],
      ({ isAlive, claiming }, state) => canFail(state, 'response') && isAlive && claiming?.stage === 'committed',
      (state, worker) => {
        count(state)
        worker.unreceived = worker.claiming!.fence
        worker.claiming = null
        return 'loses the response to its claim'
      },
    ),
    each(
      'give back a claim without a response',
      [[statements, 'give_back']],
      ({ isAlive, isTrusted, unreceived }) => isAlive && isTrusted && unreceived > 0,
      (state, worker) => {
        const claim = state.tables.claims.find(({ fence }) => fence === worker.unreceived)
        if (claim) {
          returnJobs(state, claim.jobs, claim.fence, false)
          deleteClaim(state.tables, claim.fence)
        }
        worker.unreceived = 0
        return 'returns the jobs of the claim whose response it has lost'
      },
    ),
    each(
      'kill',
      [],
      ({ isAlive, epoch }, state) => canFail(state, 'kill') && isAlive && epoch > 0,
      (state, worker) => {
        count(state)
        suffer(state, worker)
        Object.assign(worker, { isAlive: false, isTrusted: false, held: [], unreceived: 0 })
        if (worker.claiming?.stage === 'committed') worker.claiming = null
        return 'is killed'
      },
    ),
    each(
      'freeze beyond the expiry',
      [],
      ({ isAlive, isTrusted }, state) => canFail(state, 'freeze') && isAlive && isTrusted,
      (state, worker) => {
        count(state)
        suffer(state, worker)
        worker.isTrusted = false
        return 'is frozen for longer than it may rely on its presence'
      },
    ),
    each(
      'detect the end of the epoch',
      [],
      ({ isAlive, isTrusted, epoch }, { present }) => isAlive && isTrusted && !present.includes(epoch),
      (state, worker) => {
        suffer(state, worker)
        worker.isTrusted = false
        return 'detects that its epoch has ended'
      },
    ),
    each(
      'end the session of an epoch',
      [],
      ({ isTrusted, epoch }, { present }) => !isTrusted && present.includes(epoch),
      (state, worker) => {
        state.present = state.present.filter((epoch) => epoch !== worker.epoch)
        return `no longer relies on epoch ${worker.epoch}, and the server ends its session`
      },
    ),
    {
      name: 'take over an epoch',
      sql: [
        [functions, 'holdfast.job_maintain'],
        [functions, 'holdfast.job_take_over'],
        [functions, 'holdfast.job_end'],
        [ofServer, 'holdfast.is_present'],
      ],
      steps: (from) =>
        from.tables.workers
          .filter((epoch) => has('a live instance counts as dead') || !from.present.includes(epoch))
          // The claim holds the lock "claims of a session".
          .filter(
            (epoch) =>
              has('a takeover does not wait for a claim in progress') ||
              from.workers.every(({ claiming }) => claiming?.epoch !== epoch || claiming.stage === 'committed'),
          )
          // Another transaction has locked the row of a claim.
          .filter((epoch) => !from.tables.claims.some((claim) => claim.epoch === epoch && isLocked(from, claim.fence)))
          .map((epoch) => {
            const to = copy(from)
            takeOver(to, epoch)
            return step(`Maintenance takes over epoch ${epoch}.`, to)
          }),
    },
    server(
      'notice the server',
      [
        [ofServer, 'holdfast.generation'],
        [ofServer, 'holdfast.advance_fence'],
        [ofServer, 'holdfast.is_another_cluster'],
      ],
      ({ isNoticed }) => !isNoticed,
      (state) => {
        noticeServer(state)
        return 'An instance notices the new server.'
      },
    ),
    server(
      'restart the server',
      [],
      (state) => canFail(state, 'restart'),
      (state) => {
        count(state)
        stopServer(state)
        return 'The server restarts.'
      },
    ),
    server(
      'replicate',
      [],
      (state) => canFail(state, 'failover') && state.epochs > 0,
      (state) => {
        state.standby = withoutOpenTransactions(state.tables)
        return 'The standby receives all commits.'
      },
    ),
    server(
      'fail over without the last commits',
      [],
      (state) => canFail(state, 'failover') && state.standby !== null,
      (state) => {
        count(state)
        stopServer(state)
        state.tables = state.standby!
        return 'The standby, which lacks the last commits, is promoted.'
      },
    ),
    server(
      'back up',
      [],
      (state) => canFail(state, 'restore') && state.backup === null && state.epochs > 0,
      (state) => {
        state.backup = withoutOpenTransactions(state.tables)
        return 'A backup is made.'
      },
    ),
    server(
      'restore a backup into another cluster',
      [],
      (state) => canFail(state, 'restore') && state.backup !== null,
      (state) => {
        count(state)
        stopServer(state)
        state.tables = { ...state.backup!, nextXid: 1, isElsewhere: true }
        state.standby = null
        return 'The backup is restored into another cluster, where transaction ids begin again.'
      },
    ),
  ]

  /** Whether another worker ends all committed jobs after all others have died. */
  function violationAtRest(from: State): string | undefined {
    const state = copy(from)
    const { tables } = state
    for (const row of [...tables.entries, ...tables.waiting]) row.isCommitted = true
    for (const worker of state.workers) {
      suffer(state, worker)
      worker.tx = null
    }
    state.present = []
    noticeServer(state)
    for (const epoch of tables.workers) takeOver(state, epoch)
    for (let tries = 0; tries < 2 * allJobs.length; tries++) {
      if (lane > 0) runFollowUps(state)
      const claiming: Claiming = {
        epoch: 0,
        era: tables.era,
        stage: 'reading',
        frontier: tables.frontier,
        hasChanged: false,
        jobs: [],
        fence: 0,
      }
      openWindow(state, claiming)
      while (!readEntries(state, claiming));
      for (const [at, one] of claiming.jobs.entries()) {
        done(state, one.job, claiming.fence, at === claiming.jobs.length - 1)
      }
    }
    if (state.wrong !== null) return state.wrong
    const lost = [...tables.entries, ...tables.waiting].find((row) => !isEnded(tables, row.job))
    return lost && `${job(lost.job)} is never run, if all workers die now and another worker starts`
  }

  return {
    name: `jobs: ${workers} workers, transactions with ${transactions.join(' + ')} jobs, claims of ${maxClaim}${lane > 0 ? `, a lane of ${lane}` : ''}, ${countOf(faults)}${faults > 0 ? ` (${kinds.join(', ')})` : ''}`,
    initial: {
      planned: [...transactions],
      workers: everyone.map(() => ({
        isAlive: true,
        epoch: 0,
        isTrusted: false,
        claiming: null,
        held: [],
        unreceived: 0,
        tx: null,
      })),
      present: [],
      epochs: 0,
      tables: {
        era: 0,
        isElsewhere: false,
        nextXid: 1,
        nextEntry: 1,
        fence: 0,
        entries: [],
        waiting: [],
        active: 0,
        followUps: 0,
        frontier: noFrontier,
        claims: [],
        ends: [],
        buried: [],
        workers: [],
        owners: allJobs.map(() => 0),
      },
      standby: null,
      backup: null,
      isNoticed: true,
      drawn: 0,
      suffered: allJobs.map(() => 0),
      faults,
      wrong: null,
    },
    actions,
    violation: ({ wrong, tables, workers: all }) => {
      if (wrong !== null) return wrong
      const inLane = allJobs.filter((id) => newestEntry(tables, id)?.hasLane && !isEnded(tables, id))
      if (tables.active !== inLane.length + tables.followUps) return 'the lane counts its jobs wrongly'
      if (lane > 0 && tables.owners.filter((owner) => owner > 0).length > lane) return 'the lane runs too many jobs'
      for (const id of allJobs) {
        const ends = tables.ends.filter((end) => end.job === id && end.isDone).length
        if (ends + tables.buried.filter((one) => one === id).length > 1) return `${job(id)} has ended twice`
        const runs = all.flatMap(({ isTrusted, held }) =>
          isTrusted ? held.filter((one) => one.job === id && !one.isOver) : [],
        )
        if (runs.length > 1) return `two workers that rely on their presence have ${job(id)}`
      }
      return undefined
    },
    violationAtRest,
    show: ({ workers: all, tables }) =>
      [
        ...all.map(({ isAlive, isTrusted, held }, at) => {
          if (!isAlive) return `${names[at]} is dead`
          const ofWorker = held.map((one) => `${job(one.job)}${one.isStarted ? ' (started)' : ''}`).join(' and ')
          return `${names[at]} ${isTrusted ? '' : 'is not present, '}has ${ofWorker || 'no job'}`
        }),
        `claims: ${tables.claims.map((one) => `${one.fence} of epoch ${one.epoch} (${one.jobs.map(job).join(', ')})`).join(', ') || 'none'}`,
        ...tables.ends.map((end) => `${job(end.job)} ${end.isDone ? 'done' : 'returned'} by ${end.fence}`),
      ].join(' · '),
  }
}

/** Returns the tables as a standby or a backup shows them: open transactions do not exist there. */
function withoutOpenTransactions(tables: Tables): Tables {
  const kept = copy(tables)
  kept.entries = kept.entries.filter(({ isCommitted }) => isCommitted)
  kept.waiting = kept.waiting.filter(({ isCommitted }) => isCommitted)
  return kept
}
