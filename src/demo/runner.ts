import type pg from 'pg'
import { pause, whenAborted } from '../base/index.js'
import type { DemoDatabase } from './database.js'
import { FaultInjector } from './fault-injector.js'
import { Fleet, type Member } from './fleet.js'
import { LoadGenerator } from './load-generator.js'
import type { InstanceMessage } from './messages.js'
import { prove, type Verdict, violationsIn } from './proof.js'
import type { DemoEvent, DemoEventKind, DemoReporter } from './reporter.js'
import { type Loss, Takeovers } from './takeovers.js'

const proofEveryMs = 10_000
/** Namespace of the instances. The proof checks a schedule in this namespace. */
const namespace = 'default'

interface DemoOptions {
  readonly database: DemoDatabase
  readonly pool: pg.Pool
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

/** Runs the company with load and faults, and reports events and proofs. */
export class DemoRunner {
  readonly #options: DemoOptions
  readonly #fleet: Fleet
  readonly #load: LoadGenerator
  readonly #faults: FaultInjector
  readonly #takeovers = new Takeovers((loss) => this.#reportTakeovers(loss))
  readonly #whenOpen: Promise<void>
  #resolveOpen = () => {}
  #isOpen = false
  #isClosing = false
  /** Number of finished work items since the last proof, by kind. */
  #doneByKind = new Map<string, number>()
  readonly #lostInstances = { killed: 0, frozen: 0 }
  readonly #takeoverMs: Record<'killed' | 'frozen', number[]> = { killed: [], frozen: [] }
  /** Largest count from one proof. Violations stay in the tables, so every later proof counts them again. */
  #violations = 0
  #endedByThemselves = 0

  constructor(options: DemoOptions) {
    const { database, pool, seed, expiryMs, instances } = options
    this.#options = options
    this.#whenOpen = new Promise((resolve) => {
      this.#resolveOpen = resolve
    })
    this.#fleet = new Fleet(database, expiryMs, {
      onMessage: (member, message) => this.#onMessage(member, message),
      onEnded: (member, how) => this.#reportDeath(member, how),
    })
    this.#load = new LoadGenerator(pool, this.#fleet, seed + 1)
    this.#faults = new FaultInjector(this.#fleet, seed, expiryMs, instances, {
      killed: (member) => this.#reportLoss(member, 'killed'),
      frozen: (member) => this.#reportLoss(member, 'frozen'),
      thawed: (member, afterMs) => this.#reportThaw(member, afterMs),
    })
  }

  /** Runs the demo until it is interrupted, or until `durationMs` after all instances have opened. */
  async run(interrupted: AbortSignal, durationMs: number): Promise<DemoOutcome> {
    const { reporter, instances, seed } = this.#options
    try {
      for (let number = 0; number < instances; number++) this.#fleet.start()
      await Promise.race([this.#whenOpen, new Promise((resolve) => whenAborted(interrupted, resolve))])
      const stop = new AbortController()
      const forget = whenAborted(interrupted, () => stop.abort())
      const timer = setTimeout(() => stop.abort(), durationMs)
      await this.#runUntil(stop.signal)
      clearTimeout(timer)
      forget()
      this.#report('closing', 'The company is closing. Running work can still finish.')
      this.#isClosing = true
    } finally {
      await this.#load.stop()
      await this.#fleet.close()
    }
    const proof = await this.#reportProof(true)
    const { seconds } = reporter
    this.#report('ended', this.#summaryText(seconds))
    return {
      seconds,
      seed,
      killed: this.#lossSummary('killed'),
      frozen: this.#lossSummary('frozen'),
      died: this.#endedByThemselves,
      violations: this.#violations,
      proof,
    }
  }

  async #runUntil(stop: AbortSignal): Promise<void> {
    this.#load.start()
    const faults = this.#faults.run(stop)
    for (;;) {
      await pause(proofEveryMs, stop)
      if (stop.aborted) break
      this.#reportWork()
      // Reports an error and continues, because the user's server may be temporarily unavailable.
      await this.#reportProof(false).catch((error) => this.#reportTrouble(error))
    }
    await faults
  }

  #onMessage(member: Member, message: InstanceMessage): void {
    if (message.type === 'trouble') this.#reportTrouble(message.error, member)
    if (message.type === 'open') this.#onOpen(member, message.port)
    if (message.type === 'work-started') this.#onWorkStarted(member, message.kind, message.subject)
    if (message.type === 'work-ended') this.#onWorkEnded(member, message.kind, message.subject, message.isDone)
  }

  #onOpen(member: Member, port: number): void {
    // Ignores a message if its instance was killed before the message arrived.
    if (member.state !== 'opening') return
    member.state = 'open'
    member.port = port
    if (this.#isOpen) {
      this.#report('opened', `${member.name} joins as a replacement.`, { instance: member.name })
    } else if (this.#fleet.open.length === this.#options.instances) {
      const names = this.#fleet.open.map(({ name }) => name).sort()
      this.#report('opened', `${names.join(', ')} have joined: ${names.length} processes.`)
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
    if (kind === 'report') this.#report('tick', `${name} starts the report for the night of ${subject}.`, about)
    if (kind === 'index') this.#report('elected', `${name} has been elected leader and fills the search index.`, about)
  }

  #onWorkEnded(member: Member, kind: string, subject: string, isDone: boolean): void {
    const { name, works } = member
    const work = `${kind} ${subject}`
    works.delete(work)
    if (!isDone) return
    this.#takeovers.workEnded(member, work)
    this.#doneByKind.set(kind, (this.#doneByKind.get(kind) ?? 0) + 1)
    if (kind !== 'report') return
    this.#report('report', `${name} has finished the report for the night of ${subject}.`, {
      instance: name,
      works: [work],
    })
  }

  #reportLoss(victim: Member, how: 'killed' | 'frozen'): void {
    this.#takeovers.instanceLost(victim, how)
    this.#lostInstances[how]++
    const works = [...victim.works]
    const during = works.length === 0 ? 'while it was idle' : `during ${formatList(works)}`
    this.#report(how, `${victim.name} is ${how} ${during}.`, { instance: victim.name, works })
  }

  #reportThaw(victim: Member, ms: number): void {
    this.#takeovers.instanceThawed(victim)
    const isLong = ms > this.#options.expiryMs
    const effect = isLong
      ? '. The instance gives up everything that it held, and starts again.'
      : ', before its locks expire.'
    this.#report('thawed', `${victim.name} thaws after ${formatSeconds(ms)}${effect}`, { instance: victim.name, ms })
  }

  #reportTakeovers({ victim, how, takeovers, left }: Loss): void {
    const times = takeovers.map(({ afterMs }) => afterMs)
    this.#takeoverMs[how].push(...times)
    const parts = takeovers.map(({ work, by, afterMs }) => `${work} on ${by} after ${formatSeconds(afterMs)}`)
    const works = takeovers.map(({ work }) => work)
    const details = { instance: victim.name, works, ...(times.length > 0 && { ms: Math.max(...times) }) }
    if (parts.length > 0)
      this.#report('taken-over', `Other instances continue the work of ${victim.name}: ${formatList(parts)}.`, details)
    if (left.size > 0)
      this.#report('taken-over', `Work of ${victim.name} that no instance has continued yet: ${formatList([...left])}.`)
  }

  #reportDeath(member: Member, how: string): void {
    if (member.isExpectedToEnd) return
    this.#endedByThemselves++
    this.#report('died', `${member.name} has ended unexpectedly (${how}).`, { instance: member.name })
  }

  #reportTrouble(error: unknown, member?: Member): void {
    this.#report('trouble', String(error), member && { instance: member.name })
  }

  #reportWork(): void {
    const count = (...kinds: string[]) => kinds.reduce((sum, kind) => sum + (this.#doneByKind.get(kind) ?? 0), 0)
    const { deliveries, refused } = this.#load.resetCounts()
    const parts = [
      `${count('payment')} payments from ${deliveries} deliveries`,
      `${count('export')} exports, ${refused} refused`,
      `${count('invoice')} invoices`,
      `${count('account', 'contract', 'mail', 'call')} steps for new customers`,
      `${count('books')} entries in the books`,
    ]
    this.#report('work', `Since the last check: ${parts.join('; ')}.`)
    this.#doneByKind = new Map()
  }

  async #reportProof(isLast: boolean): Promise<readonly Verdict[]> {
    const { pool, database } = this.#options
    const proof = await prove(pool, database.schema, namespace)
    const violations = violationsIn(proof)
    this.#violations = Math.max(this.#violations, violations)
    const effects = proof.reduce((sum, { checked }) => sum + checked, 0)
    const lines = isLast ? proof.map(({ invariant, checked }) => `${invariant.padEnd(28)}${checked}`) : []
    const text = [`${violations} violations in ${effects} checks of the company's data${isLast ? ':' : '.'}`, ...lines]
    this.#report('proof', text.join('\n'), { proof })
    for (const { invariant, violations, example } of proof) {
      if (violations > 0)
        this.#report('violation', `${invariant}: violated ${violations} times, for example: ${example}`)
    }
    return proof
  }

  #summaryText(seconds: number): string {
    const lines = [`${seconds} s with seed ${this.#options.seed}: ${this.#violations} violations.`]
    for (const how of ['killed', 'frozen'] as const) {
      const { instances, takeovers, medianMs, longestMs } = this.#lossSummary(how)
      const times = takeovers === 0 ? '' : `, median ${formatSeconds(medianMs!)}, longest ${formatSeconds(longestMs!)}`
      lines.push(`Instances ${how}: ${instances}; pieces of work that other instances took over: ${takeovers}${times}.`)
    }
    return lines.join('\n')
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

  #report(event: DemoEventKind, text: string, details: Omit<DemoEvent, 'event' | 'text'> = {}): void {
    // Omits takeovers between closing instances, because they are expected.
    if (this.#isClosing && !['proof', 'violation', 'died', 'ended'].includes(event)) return
    this.#options.reporter.report({ event, text, ...details })
  }
}

/** Joins the first `max` parts and states how many parts were omitted. */
function formatList(parts: readonly string[], max = 5): string {
  const shown = parts.slice(0, max).join(', ')
  return parts.length > max ? `${shown} and ${parts.length - max} more` : shown
}

function formatSeconds(ms: number): string {
  return ms < 10 ? '0.01 s' : `${(ms / 1_000).toFixed(ms < 1_000 ? 2 : 1)} s`
}
