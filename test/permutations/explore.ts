import { closeGates, openGate } from './pauses.js'
import type { Outcome, Session, Step, World } from './world.js'

/** One session's list of steps. */
export interface Actor {
  readonly name: string
  readonly steps: readonly Step[]
  /** Steps with which a caller continues if it does not know the result. By default, it repeats all its steps. */
  readonly recovery?: readonly Step[]
  /** Whether orders without any other kind of actor are of no interest. */
  readonly isBystander?: boolean
  /** Whether its steps make sense only in one transaction. */
  readonly isTransaction?: boolean
}

/** Knowledge of an actor after a run. */
export interface Report {
  readonly actor: string
  /** All results, also those that the caller has not received. */
  readonly outcomes: readonly Outcome[]
  /** Number of the first result that the caller knows about. Earlier ones were interrupted. */
  readonly knownFrom: number
}

/** A statement whose orders are tried. */
export interface Statement<Facts = unknown> {
  readonly name: string
  /** Source and text of a plausible mistake, which the test must find. */
  readonly bugs: readonly Bug[]
  /** Creates the rows of one run. The tables are empty. */
  prepare(world: World): Promise<Facts>
  actors(facts: Facts): readonly Actor[]
  /** Returns a sentence for each violation. May finish what is left, like a worker that comes later. */
  check(world: World, facts: Facts, reports: ReadonlyMap<string, Report>): Promise<string[]>
  /** Functions in which sessions also stop between two statements. */
  readonly functions: readonly string[]
  /** Tables that the run fills. They are emptied after each run. */
  readonly tables: readonly string[]
}

/** A mistake in an SQL function: text that is replaced. */
export interface Bug {
  readonly name: string
  readonly function: string
  readonly edits: readonly (readonly [from: string | RegExp, to: string])[]
}

export type Interruption = 'cancelled' | 'terminated' | 'reply lost'

/** Where an actor is interrupted. */
interface Interrupted {
  readonly how: Interruption
  readonly actor: number
  readonly step: number
}

export interface Tally {
  /** All orders of the steps, including those that cannot happen. */
  readonly orders: number
  /** Orders that ran. */
  readonly ran: number
  /** Orders that cannot happen, because a session waits when its next step would be due. */
  readonly impossible: number
  /** Steps that waited for another session. */
  readonly waits: number
  /** Runs with an interrupted step. */
  readonly interrupted: number
  /** Violations, each with the order that shows it. */
  readonly violations: readonly string[]
}

/** Returns the number of orders of steps that keep each actor's own order. */
function countOrders(lengths: readonly number[]): number {
  let [orders, total] = [1n, 0n]
  for (const length of lengths) {
    for (let step = 1n; step <= BigInt(length); step++) orders = (orders * ++total) / step
  }
  return Number(orders)
}

export interface Extent {
  readonly interruptions?: readonly Interruption[]
  /** Whether `begin` and the next step are one step. `begin` reads and locks nothing, so that its place matters only to `now()`. */
  readonly mergesBegin?: boolean
  /**
   * Stops sessions also between the statements of the functions, which `pauses.ts` has prepared. The number limits how often a run may leave a
   * session that could continue. Each statement is then a transaction of its own.
   */
  readonly maxSwitches?: number
  readonly stopsAtViolation?: boolean
}

interface Run {
  /** Actors in the order in which their steps started. */
  readonly order: readonly number[]
  /** For each step, the actors that could have taken it. */
  readonly choices: readonly (readonly number[])[]
  readonly waits: number
  readonly violations: readonly string[]
}

/**
 * Runs every order of the actors' steps that can happen. Each run begins with prepared tables, follows the given prefix, and then lets the same
 * actor continue until it waits or has finished. The other actors that could have continued are the prefixes of later runs.
 */
export async function explore(
  statement: Statement,
  world: World,
  chosen: readonly string[],
  { interruptions = [], mergesBegin = false, maxSwitches, stopsAtViolation = false }: Extent = {},
): Promise<Tally> {
  const explorer = new Explorer(statement, world, chosen, mergesBegin, maxSwitches !== undefined)
  const violations: string[] = []
  const prefixes: number[][] = [[]]
  let [ran, waits, interrupted, lengths] = [0, 0, 0, [] as number[]]
  for (let prefix = prefixes.pop(); prefix; prefix = prefixes.pop()) {
    const run = await explorer.run(prefix)
    lengths = explorer.lengths
    ran++
    waits += run.waits
    violations.push(...run.violations)
    for (let at = prefix.length; at < run.order.length; at++) {
      for (const choice of run.choices[at]!) {
        if (choice === run.order[at]) continue
        const next = [...run.order.slice(0, at), choice]
        if (maxSwitches === undefined || switchesOf(next, run.choices) <= maxSwitches) prefixes.push(next)
      }
    }
    for (const how of interruptions) {
      for (const point of explorer.points(how)) {
        const { violations: more } = await explorer.run(run.order, point)
        interrupted++
        violations.push(...more)
      }
    }
    if (stopsAtViolation && violations.length > 0) break
  }
  const orders = maxSwitches === undefined ? countOrders(lengths) : ran
  return { orders, ran, impossible: orders - ran, waits, interrupted, violations }
}

/** Number of times that the order leaves an actor that could continue. */
function switchesOf(order: readonly number[], choices: Run['choices']): number {
  return order.filter((actor, at) => at > 0 && actor !== order[at - 1] && choices[at]!.includes(order[at - 1]!)).length
}

class Explorer {
  lengths: number[] = []

  constructor(
    readonly statement: Statement,
    readonly world: World,
    readonly chosen: readonly string[],
    readonly mergesBegin: boolean,
    readonly pauses: boolean,
  ) {}

  /** Returns all places for an interruption. A lost reply matters only where the effect has been committed. */
  points(how: Interruption): Interrupted[] {
    return this.lengths.flatMap((length, actor) =>
      Array.from({ length }, (_, step) => ({ how, actor, step })).filter(
        ({ step }) => how !== 'reply lost' || step === length - 1,
      ),
    )
  }

  async run(prefix: readonly number[], interrupted?: Interrupted): Promise<Run> {
    const { statement, world } = this
    const facts = await statement.prepare(world)
    const cast = statement.actors(facts).filter(({ name }) => this.chosen.includes(name))
    const actors = this.pauses ? cast.map(withoutTransaction) : cast
    this.lengths = actors.map(({ steps }) => steps.length - Number(this.mergesBegin && steps[0] === begin))
    await world.openSessions(actors.length)
    const sessions = world.sessions.slice(0, actors.length)
    const players = actors.map((actor, at) => new Player(actor, sessions[at]!, this.mergesBegin))
    if (this.pauses) await closeGates(world, sessions)
    const order: number[] = []
    const choices: number[][] = []
    let waits = 0
    for (;;) {
      const able = players.flatMap((player, at) => (player.isAble ? [at] : []))
      if (able.length === 0) break
      const wanted = prefix[order.length]
      // After an interruption, and between the statements of a function, sessions may wait at other places. The rest of the order then runs as
      // far as it can.
      if (wanted !== undefined && !able.includes(wanted) && !interrupted && !this.pauses) {
        throw new Error(`The order ${prefix.join(', ')} ran once and cannot run again`)
      }
      const last = order.at(-1)
      const usual = last !== undefined && able.includes(last) ? last : able[0]!
      const actor = wanted !== undefined && able.includes(wanted) ? wanted : usual
      order.push(actor)
      choices.push(able)
      const player = players[actor]!
      const isHere = interrupted?.actor === actor && interrupted.step === player.moves && !player.isRecovering
      await player.perform(world, isHere ? interrupted.how : undefined)
      if (player.session.running && !player.session.isPaused) waits++
    }
    const trace = () => describe(actors, players, interrupted)
    if (players.some(({ session }) => session.running)) throw new Error(`Sessions wait for nothing: ${trace()}`)
    const reports = new Map(players.map((player) => [player.actor.name, player.report()]))
    const violations = [
      ...unexpectedErrors(players, interrupted),
      ...(await statement.check(world, facts, reports)),
    ].map((violation) => `${violation}\n    ${trace()}`)
    await Promise.all(sessions.map((session) => session.reset()))
    await world.empty(statement.tables)
    return { order, choices, waits, violations }
  }
}

/** An actor in one run. */
class Player {
  at = 0
  /** Number of moves that it has made. */
  moves = 0
  isRecovering = false
  #knownFrom = 0
  #steps: readonly Step[]
  #isInterrupted = false

  constructor(
    readonly actor: Actor,
    readonly session: Session,
    readonly mergesBegin: boolean,
  ) {
    this.#steps = actor.steps
  }

  get isAble(): boolean {
    return this.session.isPaused || (this.session.running === undefined && this.at < this.#steps.length)
  }

  async perform(world: World, how: Interruption | undefined): Promise<void> {
    if (this.session.isPaused) return openGate(world, this.session)
    this.moves++
    if (this.mergesBegin && this.#steps[this.at] === begin) await world.perform(this.session, this.#steps[this.at++]!)
    const step = this.#steps[this.at++]!
    if (how === 'cancelled') {
      await world.performAndCancel(this.session, step)
      // The request arrived before the statement waited for another session.
      if (this.session.running) await world.cancel(this.session)
    } else await world.perform(this.session, step)
    if (how === undefined) return
    this.#isInterrupted = true
    if (how === 'terminated') await world.terminate(this.session)
    else if (how === 'cancelled') {
      if (!this.session.outcomes.at(-1)!.error) {
        // The statement was faster than the request. The caller has its reply and continues.
        this.#isInterrupted = false
        return
      }
      await world.perform(this.session, rollback)
    } else if (this.session.running) {
      // The reply is lost later. Other sessions continue first.
      this.#steps = [...this.#steps.slice(0, this.at), ...(this.actor.recovery ?? this.actor.steps)]
      this.isRecovering = true
      this.#knownFrom = this.at
      return
    }
    this.#recover()
  }

  #recover(): void {
    this.#steps = this.actor.recovery ?? this.actor.steps
    this.at = 0
    this.isRecovering = true
    this.#knownFrom = this.session.outcomes.length
  }

  report(): Report {
    return {
      actor: this.actor.name,
      outcomes: this.session.outcomes,
      knownFrom: this.#isInterrupted ? this.#knownFrom : 0,
    }
  }
}

export const begin: Step = { name: 'begin', text: 'begin' }
export const commit: Step = { name: 'commit', text: 'commit' }
export const rollback: Step = { name: 'rollback', text: 'rollback' }

const transactionSteps = new Set([begin, commit])

/** The actor's statements as transactions of their own, if they can be. */
function withoutTransaction(actor: Actor): Actor {
  if (actor.isTransaction) return actor
  return { ...actor, steps: actor.steps.filter((step) => !transactionSteps.has(step)) }
}

/** Errors of the server that interruptions cause. */
const interruptionErrors = new Set(['57014', '57P01', '08006'])

/** No step may fail, except those of the interrupted actor. */
function unexpectedErrors(players: readonly Player[], interrupted: Interrupted | undefined): string[] {
  return players.flatMap(({ actor, session }, at) =>
    session.outcomes.flatMap(({ step, error }) => {
      if (!error) return []
      // The driver reports a lost connection without a code.
      const code = (error as { code?: string }).code ?? '08006'
      if (interrupted?.actor === at && interruptionErrors.has(code)) return []
      return [`${actor.name}: the step ${step} failed: ${error.message}`]
    }),
  )
}

function describe(actors: readonly Actor[], players: readonly Player[], interrupted: Interrupted | undefined): string {
  const all = players
    .flatMap(({ actor: { name }, session }) => session.outcomes.map((outcome) => ({ name, ...outcome })))
    .sort((a, b) => a.startedAt - b.startedAt)
  const steps = all.map(({ name, step, rows, error, startedAt, endedAt }) => {
    const result = error ? ` [${error.message}]` : rows.length > 0 ? ` ${JSON.stringify(rows)}` : ''
    const during = all.filter((other) => other.startedAt > startedAt && other.startedAt < endedAt).length
    return `${name}: ${step}${result}${during > 0 ? ` (other steps meanwhile: ${during})` : ''}`
  })
  const point =
    interrupted && `${actors[interrupted.actor]!.name} is ${interrupted.how} at step ${interrupted.step + 1}`
  return `${point ?? ''}\n      ${steps.join('\n      ')}`
}

/** Whether the actor's transaction or last statement has succeeded, so that its caller may rely on the results. */
export function isCommitted({ outcomes, knownFrom }: Report): boolean {
  const known = outcomes.slice(knownFrom)
  return known.length > 0 && known.every(({ error }) => !error) && known.at(-1)!.step !== 'rollback'
}

/** Returns the rows of the actor's step, if the caller may rely on them. */
export function resultOf(report: Report | undefined, step: string): Record<string, unknown> | undefined {
  if (!report || !isCommitted(report)) return undefined
  return report.outcomes.slice(report.knownFrom).findLast((outcome) => outcome.step === step)?.rows[0]
}
