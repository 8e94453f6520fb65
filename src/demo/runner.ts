import type pg from 'pg'
import { pause, whenAborted } from '../base/index.js'
import { type Counts, countWork } from './counts.js'
import type { DemoDatabase } from './database.js'
import { FaultInjector } from './fault-injector.js'
import { Fleet, type Member } from './fleet.js'
import { LateWork } from './late-work.js'
import { LoadGenerator } from './load-generator.js'
import type { InstanceMessage } from './messages.js'
import {
  count,
  describeHarm,
  describeLoss,
  describeProof,
  describeWork,
  describeWorks,
  formatList,
  formatSeconds,
} from './narration.js'
import { prove, type Verdict, violationsIn } from './proof.js'
import type { DemoEvent, DemoEventKind, DemoReporter } from './reporter.js'
import { type Loss, Takeovers } from './takeovers.js'

const proofEveryMs = 10_000
/** Namespace of the instances. The proof checks a schedule in this namespace. */
const namespace = 'default'

interface DemoOptions {
  readonly database: DemoDatabase
  /** Pool whose search path selects the tables of the company with Holdfast. */
  readonly pool: pg.Pool
  /** Pool whose search path selects the tables of the company without Holdfast. Undefined if that company does not run. */
  readonly poolWithout: pg.Pool | undefined
  readonly reporter: DemoReporter
  readonly seed: number
  readonly instances: number
  readonly expiryMs: number
}

/** Result of a demo run. */
export interface DemoOutcome {
  /**
   * Duration in seconds, measured from the first line of output.
   * @fraction
   */
  readonly seconds: number
  /** Seed of the run. With `--seed`, the demo kills and freezes the same instances again. */
  readonly seed: number
  /** Instances that were killed. */
  readonly killed: LossSummary
  /** Instances that were frozen. */
  readonly frozen: LossSummary
  /** Number of instances that exited unexpectedly. The expected number is 0. */
  readonly died: number
  /** Largest number of violations that one proof counted. */
  readonly violations: number
  /** Number of times that an instance resumed after a freeze and ended work that another instance had taken over. */
  readonly lateResults: number
  /** Work of the company. */
  readonly counts: Counts
  /** Work of the company without Holdfast. Null without `--without`. */
  readonly without: Counts | null
  /** Result of the last proof, which runs after all work has ended. */
  readonly proof: readonly Verdict[]
}

/** Lost instances, and the time until other instances took over their work. */
export interface LossSummary {
  /** Number of lost instances. */
  readonly instances: number
  /** Number of interrupted work items that other instances restarted. */
  readonly takeovers: number
  /**
   * Median time from the loss of an instance until another instance started its work again, in milliseconds. Null if
   * there was no takeover.
   */
  readonly medianMs: number | null
  /**
   * Longest time from the loss of an instance until another instance started its work again, in milliseconds. Null if
   * there was no takeover.
   */
  readonly longestMs: number | null
}

/** The company without Holdfast. It receives the same load and the same faults. */
interface CompanyWithout {
  readonly pool: pg.Pool
  readonly fleet: Fleet
  readonly load: LoadGenerator
}

/** Runs the company with load and faults, and reports events and proofs. */
export class DemoRunner {
  readonly #options: DemoOptions
  readonly #fleet: Fleet
  readonly #load: LoadGenerator
  readonly #without: CompanyWithout | undefined
  readonly #faults: FaultInjector
  readonly #takeovers = new Takeovers((loss) => this.#reportTakeovers(loss))
  readonly #lateWork = new LateWork((member, ms, late) => this.#reportThaw(member, ms, late))
  /** Calls that wait until another instance has taken over a killed instance's work. */
  readonly #whenTakenOver = new Map<Member, (text: string) => void>()
  readonly #whenOpen: Promise<void>
  #resolveOpen = () => {}
  #isOpen = false
  #isClosing = false
  /** Frozen instances whose work no other instance has taken over. */
  readonly #kept = new Map<Member, readonly string[]>()
  readonly #lostInstances = { killed: 0, frozen: 0 }
  readonly #takeoverMs: Record<'killed' | 'frozen', number[]> = { killed: [], frozen: [] }
  /** Largest count from one proof. Violations stay in the tables, so every later proof counts them again. */
  #violations = 0
  #endedByThemselves = 0

  constructor(options: DemoOptions) {
    const { database, pool, poolWithout, seed, expiryMs, instances } = options
    this.#options = options
    this.#whenOpen = new Promise((resolve) => {
      this.#resolveOpen = resolve
    })
    const { url, directUrl, schema, tables, tablesWithout } = database
    const place = { url, directUrl, schema, expiryMs }
    this.#fleet = new Fleet(
      { ...place, tables, isWithout: false },
      {
        onMessage: (member, message) => this.#onMessage(member, message),
        onEnded: (member, how) => this.#reportDeath(member, how),
      },
    )
    this.#load = new LoadGenerator(pool, this.#fleet, seed + 1)
    if (poolWithout) {
      const fleet = new Fleet({ ...place, tables: tablesWithout, isWithout: true })
      this.#without = { pool: poolWithout, fleet, load: new LoadGenerator(poolWithout, fleet, seed + 1) }
    }
    this.#faults = new FaultInjector(
      { fleet: this.#fleet, twins: this.#without?.fleet, seed, expiryMs, instances },
      {
        killed: (member) => this.#reportLoss(member, 'killed'),
        frozen: (member) => this.#reportLoss(member, 'frozen'),
        thawed: (member, afterMs) => this.#onThawed(member, afterMs),
      },
    )
  }

  /** Runs the demo until it is interrupted, or until `durationMs` after all instances have opened. */
  async run(interrupted: AbortSignal, durationMs: number): Promise<DemoOutcome> {
    const { reporter, instances, seed } = this.#options
    try {
      for (let number = 0; number < instances && !interrupted.aborted; number++) {
        this.#fleet.start()
        this.#without?.fleet.start()
      }
      await Promise.race([this.#whenOpen, new Promise((resolve) => whenAborted(interrupted, resolve))])
      const stop = new AbortController()
      const forget = whenAborted(interrupted, () => stop.abort())
      const timer = setTimeout(() => stop.abort(), durationMs)
      await this.#runUntil(stop.signal)
      clearTimeout(timer)
      forget()
      this.#report('closing', 'Closing', 'running work can still finish')
      this.#isClosing = true
    } finally {
      await Promise.all([this.#load.stop(), this.#without?.load.stop()])
      await Promise.all([this.#fleet.close(), this.#without?.fleet.close()])
    }
    const proof = await this.#reportProof()
    const { counts, without } = await this.#reportWork()
    const { seconds } = reporter
    this.#report('ended', 'Ended', this.#summaryText(seconds))
    return {
      seconds,
      seed,
      killed: this.#lossSummary('killed'),
      frozen: this.#lossSummary('frozen'),
      died: this.#endedByThemselves,
      violations: this.#violations,
      lateResults: this.#lateWork.count,
      counts,
      without,
      proof,
    }
  }

  /**
   * Kills an instance now. Returns a sentence after another instance has taken over its work, or undefined if too few
   * instances are open.
   */
  async killOne(): Promise<string | undefined> {
    let resolve = (_: string) => {}
    const outcome = new Promise<string>((given) => {
      resolve = given
    })
    const victim = this.#faults.killOne((member) => this.#whenTakenOver.set(member, resolve))
    return victim && outcome
  }

  async #runUntil(stop: AbortSignal): Promise<void> {
    if (stop.aborted) return
    this.#load.start('all')
    this.#without?.load.start('common')
    const faults = this.#faults.run(stop)
    for (;;) {
      await pause(proofEveryMs, stop)
      if (stop.aborted) break
      // Reports an error and continues, because the user's server may be temporarily unavailable.
      await this.#reportProof()
        .then(() => this.#reportWork())
        .catch((error) => this.#reportTrouble(error))
    }
    await faults
  }

  #onMessage(member: Member, message: InstanceMessage): void {
    if (message.type === 'trouble') this.#reportTrouble(message.error, member)
    if (message.type === 'open') this.#onOpen(member)
    if (message.type === 'work-started') this.#onWorkStarted(member, message.kind, message.subject)
    if (message.type === 'work-ended') this.#onWorkEnded(member, message.kind, message.subject, message.isDone)
  }

  #onOpen({ name }: Member): void {
    if (this.#isOpen) {
      this.#report('replaced', `+ ${name}`, 'replaces the killed process', { instance: name })
    } else if (this.#fleet.open.length === this.#options.instances) {
      const names = this.#fleet.open.map((member) => member.name).sort()
      this.#report('opened', `${names.length} processes`, formatList(names))
      this.#isOpen = true
      this.#resolveOpen()
    }
  }

  #onWorkStarted(member: Member, kind: string, subject: string): void {
    const work = `${kind} ${subject}`
    member.works.add(work)
    if (this.#takeovers.workStarted(member, work)) return
    const { name } = member
    const about = { instance: name, works: [work] }
    if (kind === 'report')
      this.#report('tick', 'Report', `${name} starts the report for the night of ${subject}`, about)
    if (kind === 'index')
      this.#report('elected', 'Leader', `${name} is elected leader, and only the leader fills the search index`, about)
  }

  #onWorkEnded(member: Member, kind: string, subject: string, isDone: boolean): void {
    const { name, works } = member
    const work = `${kind} ${subject}`
    works.delete(work)
    this.#lateWork.ended(member, work)
    if (!isDone) return
    this.#takeovers.workEnded(member, work)
    if (kind !== 'report') return
    const about = { instance: name, works: [work] }
    this.#report('report', 'Report', `${name} has finished the report for the night of ${subject}`, about)
  }

  #reportLoss(victim: Member, how: 'killed' | 'frozen'): void {
    this.#lostInstances[how]++
    const works = [...victim.works]
    this.#report(how, lossTitle(victim, how), describeWorks(works), { instance: victim.name, works })
    this.#takeovers.instanceLost(victim, how)
  }

  #onThawed(victim: Member, ms: number): void {
    // Completes the loss. After this call, the work that other instances have taken over is known.
    this.#takeovers.instanceThawed(victim)
    this.#lateWork.thawed(victim, ms)
  }

  #reportThaw(member: Member, ms: number, late: number): void {
    const kept = this.#kept.get(member)
    this.#kept.delete(member)
    const { name } = member
    const isLong = ms > this.#options.expiryMs
    const effect = isLong
      ? late > 0
        ? `. Others had taken over: ${count(late, 'outdated result')} refused`
        : ' and started again'
      : ' and continued, because its locks had not expired'
    const text = `${kept ? `${describeWorks(kept)} → ` : ''}woke after ${formatSeconds(ms)}${effect}`
    this.#report('thawed', kept ? lossTitle(member, 'frozen') : name, text, { instance: name, ms })
  }

  #reportTakeovers(loss: Loss): void {
    const { victim, how, works: held, takeovers } = loss
    // The instance continues its work when it resumes, so the report of its resumption covers the whole event.
    if (how === 'frozen' && takeovers.length === 0) {
      this.#kept.set(victim, held)
      return
    }
    const times = takeovers.map(({ afterMs }) => afterMs)
    this.#takeoverMs[how].push(...times)
    if (how === 'frozen')
      this.#lateWork.takenOver(
        victim,
        takeovers.map(({ work }) => work),
      )
    const works = takeovers.map(({ work }) => work)
    const text = describeLoss(loss)
    this.#report('taken-over', lossTitle(victim, how), text, {
      instance: victim.name,
      works,
      ...(times.length > 0 && { ms: Math.max(...times) }),
      at: loss.at,
    })
    this.#whenTakenOver.get(victim)?.(`${victim.name} was killed: ${text}.`)
    this.#whenTakenOver.delete(victim)
  }

  #reportDeath(member: Member, how: string): void {
    if (member.isExpectedToEnd) return
    this.#endedByThemselves++
    this.#report('died', member.name, `ended unexpectedly (${how})`, { instance: member.name })
  }

  #reportTrouble(error: unknown, member?: Member): void {
    this.#report('trouble', 'Error', String(error), member && { instance: member.name })
  }

  async #reportWork(): Promise<{ counts: Counts; without: Counts | null }> {
    const { database, pool } = this.#options
    const counts = await countWork(pool, database.schema)
    this.#report('work', 'With Holdfast', describeWork(counts, this.#lateWork.count), { counts })
    if (!this.#without) return { counts, without: null }
    const without = await countWork(this.#without.pool, database.schema)
    this.#report('without', 'Without Holdfast', describeHarm(without), { counts: without })
    return { counts, without }
  }

  async #reportProof(): Promise<readonly Verdict[]> {
    const { pool, database } = this.#options
    const proof = await prove(pool, database.schema, namespace)
    const violations = violationsIn(proof)
    this.#violations = Math.max(this.#violations, violations)
    this.#report('proof', `${violations === 0 ? '✓' : '✗'} Check`, describeProof(proof, violations), { proof })
    for (const { invariant, violations, example } of proof) {
      if (violations > 0)
        this.#report(
          'violation',
          '✗ Violation',
          `${invariant}: violated ${count(violations, 'time')}, for example: ${example}`,
        )
    }
    return proof
  }

  #summaryText(seconds: number): string {
    const parts = (['killed', 'frozen'] as const).flatMap((how) => {
      const { instances, takeovers, medianMs, longestMs } = this.#lossSummary(how)
      const times =
        takeovers === 0
          ? ''
          : `; others continued ${count(takeovers, 'piece')} of their work after ${formatSeconds(medianMs!)} (median; longest ${formatSeconds(longestMs!)})`
      return instances === 0 ? [] : `${count(instances, 'process', 'processes')} ${how}${times}.`
    })
    const { seed } = this.#options
    return [`${count(this.#violations, 'violation')} in ${seconds} s.`, ...parts, `Seed ${seed}.`].join(' ')
  }

  #lossSummary(how: 'killed' | 'frozen'): LossSummary {
    const times = this.#takeoverMs[how].map(Math.round).sort((a, b) => a - b)
    return {
      instances: this.#lostInstances[how],
      takeovers: times.length,
      medianMs: times[Math.floor(times.length / 2)] ?? null,
      longestMs: times.at(-1) ?? null,
    }
  }

  #report(
    event: DemoEventKind,
    title: string,
    text: string,
    details: Omit<DemoEvent, 'event' | 'title' | 'text'> = {},
  ): void {
    // Omits takeovers between closing instances, because they are expected.
    if (this.#isClosing && !['proof', 'work', 'without', 'violation', 'died', 'ended'].includes(event)) return
    this.#options.reporter.report({ event, title, text, ...details })
  }
}

function lossTitle({ name }: Member, how: Loss['how']): string {
  return how === 'killed' ? `✗ kill -9 ${name}` : `‖ freeze ${name}`
}
