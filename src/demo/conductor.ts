import type pg from 'pg'
import { pause, whenAborted } from '../base/index.js'
import { Fleet, type Member } from './fleet.js'
import type { Ground } from './ground.js'
import { Mischief } from './mischief.js'
import type { DemoEvent, Happening, Narrator } from './narrator.js'
import { Outside } from './outside.js'
import { prove, type Verdict, violationsIn } from './proof.js'
import type { Said } from './said.js'
import { type Loss, Takeovers } from './takeovers.js'

const proofEveryMs = 10_000
/** Of Holdfast in the instances, which the proof asks for the reasons of ticks without a run. */
const namespace = 'default'

interface Staging {
  readonly ground: Ground
  readonly pool: pg.Pool
  readonly story: Narrator
  readonly seed: number
  readonly instances: number
  readonly expiryMs: number
}

/** Result of a run of the demo. */
export interface DemoOutcome {
  /**
   * Duration in seconds, from the first line.
   *
   * @fraction
   */
  readonly seconds: number
  /** Seed of the run. With `--seed`, the demo kills and freezes the same instances again. */
  readonly seed: number
  /** Instances that were killed. */
  readonly killed: Losses
  /** Instances that were frozen. */
  readonly frozen: Losses
  /** Number of instances that ended by themselves. None should. */
  readonly died: number
  /** Largest number of violations that one proof counted. */
  readonly violations: number
  /** The last proof, after everything had ended. */
  readonly proof: readonly Verdict[]
}

/** Lost instances, and how soon their work ran elsewhere. */
export interface Losses {
  /** Number of lost instances. */
  readonly instances: number
  /** Number of pieces of their work that other instances started again. */
  readonly takeovers: number
  /** Median time from the loss to that start, in milliseconds. Null if there was none. */
  readonly medianMs: number | null
  /** Longest time from the loss to that start, in milliseconds. Null if there was none. */
  readonly longestMs: number | null
}

/** Brings the company up, lets things happen to it, and says what it sees. */
export class Conductor {
  readonly #staging: Staging
  readonly #fleet: Fleet
  readonly #outside: Outside
  readonly #mischief: Mischief
  readonly #takeovers = new Takeovers((loss) => this.#tellTakeovers(loss))
  readonly #whenOpen: Promise<void>
  #open = () => {}
  #isOpen = false
  #isClosing = false
  /** What was done since the last proof, by kind. */
  #done = new Map<string, number>()
  readonly #lost = { killed: 0, frozen: 0 }
  readonly #takeoverMs: Record<'killed' | 'frozen', number[]> = { killed: [], frozen: [] }
  /** Violations stay to be seen, so the most that one proof has counted is what there was. */
  #violations = 0
  #died = 0

  constructor(staging: Staging) {
    const { ground, pool, seed, expiryMs, instances } = staging
    this.#staging = staging
    this.#whenOpen = new Promise((resolve) => {
      this.#open = resolve
    })
    this.#fleet = new Fleet(ground, expiryMs, {
      hear: (member, said) => this.#hear(member, said),
      gone: (member, how) => this.#tellDeath(member, how),
    })
    this.#outside = new Outside(pool, this.#fleet, seed + 1)
    this.#mischief = new Mischief(this.#fleet, seed, expiryMs, instances, {
      killed: (member) => this.#tellLoss(member, 'killed'),
      frozen: (member) => this.#tellLoss(member, 'frozen'),
      thawed: (member, afterMs) => this.#tellThaw(member, afterMs),
    })
  }

  /** Until it is interrupted, or for so long from when all instances are open. */
  async conduct(interrupted: AbortSignal, lastsMs: number): Promise<DemoOutcome> {
    const { story, instances, seed } = this.#staging
    try {
      for (let number = 0; number < instances; number++) this.#fleet.start()
      await Promise.race([this.#whenOpen, new Promise((resolve) => whenAborted(interrupted, resolve))])
      const over = new AbortController()
      const forget = whenAborted(interrupted, () => over.abort())
      const rest = setTimeout(() => over.abort(), lastsMs)
      await this.#goOn(over.signal)
      clearTimeout(rest)
      forget()
      this.#tell('closes', 'The company closes: what runs may come to its end.')
      this.#isClosing = true
    } finally {
      await this.#outside.end()
      await this.#fleet.close()
    }
    const proof = await this.#prove(true)
    const { seconds } = story
    this.#tell('end', this.#farewell(seconds))
    return {
      seconds,
      seed,
      killed: this.#losses('killed'),
      frozen: this.#losses('frozen'),
      died: this.#died,
      violations: this.#violations,
      proof,
    }
  }

  async #goOn(over: AbortSignal): Promise<void> {
    this.#outside.begin()
    const mischief = this.#mischief.go(over)
    for (;;) {
      await pause(proofEveryMs, over)
      if (over.aborted) break
      this.#tellWork()
      // A server of one's own may be away; that is for the instances to bear, and for us.
      await this.#prove(false).catch((error) => this.#tellTrouble(error))
    }
    await mischief
  }

  #hear(member: Member, said: Said): void {
    if (said.say === 'trouble') this.#tellTrouble(said.error, member)
    if (said.say === 'open') this.#opened(member, said.port)
    if (said.say === 'begins') this.#begins(member, said.kind, said.which)
    if (said.say === 'ends') this.#ends(member, said.kind, said.which, said.isDone)
  }

  #opened(member: Member, port: number): void {
    // It may have been killed before its word arrived.
    if (member.state !== 'opening') return
    member.state = 'open'
    member.port = port
    if (this.#isOpen) {
      this.#tell('opened', `${member.name} takes part, as a replacement.`, { instance: member.name })
    } else if (this.#fleet.open.length === this.#staging.instances) {
      const names = this.#fleet.open.map(({ name }) => name).sort()
      this.#tell('opened', `${names.join(', ')} take part: ${names.length} processes.`)
      this.#isOpen = true
      this.#open()
    }
  }

  #begins(member: Member, kind: string, which: string): void {
    const work = `${kind} ${which}`
    member.works.add(work)
    if (this.#takeovers.begins(member, work)) return
    const { name } = member
    const about = { instance: name, works: [work] }
    if (kind === 'report') this.#tell('tick', `${name} wins the night of ${which}, and makes its report.`, about)
    if (kind === 'index') this.#tell('leads', `${name} is elected to fill the index of search.`, about)
  }

  #ends(member: Member, kind: string, which: string, isDone: boolean): void {
    const { name, works } = member
    const work = `${kind} ${which}`
    works.delete(work)
    if (!isDone) return
    this.#takeovers.ends(member, work)
    this.#done.set(kind, (this.#done.get(kind) ?? 0) + 1)
    if (kind !== 'report') return
    this.#tell('report', `${name} has made the report of the night of ${which}.`, { instance: name, works: [work] })
  }

  #tellLoss(victim: Member, how: 'killed' | 'frozen'): void {
    this.#takeovers.lost(victim, how)
    this.#lost[how]++
    const works = [...victim.works]
    const amid = works.length === 0 ? 'while it had nothing to do' : `in the middle of ${listed(works)}`
    this.#tell(how, `${victim.name} is ${how}, ${amid}.`, { instance: victim.name, works })
  }

  #tellThaw(victim: Member, ms: number): void {
    this.#takeovers.thawed(victim)
    const isLong = ms > this.#staging.expiryMs
    const rest = isLong ? ': it believes in nothing that it had, and begins anew.' : ', too soon for anybody to notice.'
    this.#tell('thawed', `${victim.name} thaws after ${inSeconds(ms)}${rest}`, { instance: victim.name, ms })
  }

  #tellTakeovers({ victim, how, takeovers, left }: Loss): void {
    const times = takeovers.map(({ afterMs }) => afterMs)
    this.#takeoverMs[how].push(...times)
    const parts = takeovers.map(({ work, by, afterMs }) => `${work} at ${by} after ${inSeconds(afterMs)}`)
    const works = takeovers.map(({ work }) => work)
    const told = { instance: victim.name, works, ...(times.length > 0 && { ms: Math.max(...times) }) }
    if (parts.length > 0) this.#tell('elsewhere', `What ${victim.name} had goes on: ${listed(parts)}.`, told)
    if (left.size > 0) this.#tell('elsewhere', `Still waits, of what ${victim.name} had: ${listed([...left])}.`)
  }

  #tellDeath(member: Member, how: string): void {
    // Those that were killed, and those that were told to close, are expected to end.
    if (member.isExpectedToEnd) return
    this.#died++
    this.#tell('died', `${member.name} has ended by itself (${how}), which no instance should.`, {
      instance: member.name,
    })
  }

  #tellTrouble(error: unknown, member?: Member): void {
    this.#tell('trouble', String(error), member && { instance: member.name })
  }

  #tellWork(): void {
    const count = (...kinds: string[]) => kinds.reduce((sum, kind) => sum + (this.#done.get(kind) ?? 0), 0)
    const { deliveries, refused } = this.#outside.taken()
    const parts = [
      `${count('payment')} payments of ${deliveries} deliveries`,
      `${count('export')} exports, ${refused} refused`,
      `${count('invoice')} invoices`,
      `${count('account', 'contract', 'mail', 'call')} steps with new customers`,
      `${count('books')} entries in the books`,
    ]
    this.#tell('work', `Meanwhile: ${parts.join('; ')}.`)
    this.#done = new Map()
  }

  async #prove(isLast: boolean): Promise<readonly Verdict[]> {
    const { pool, ground } = this.#staging
    const proof = await prove(pool, ground.schema, namespace)
    const violations = violationsIn(proof)
    this.#violations = Math.max(this.#violations, violations)
    const effects = proof.reduce((sum, { checked }) => sum + checked, 0)
    const lines = isLast ? proof.map(({ invariant, checked }) => `${invariant.padEnd(28)}${checked}`) : []
    const text = [`${violations} violations in ${effects} checks of what was written${isLast ? ':' : '.'}`, ...lines]
    this.#tell('proof', text.join('\n'), { proof })
    for (const { invariant, violations, example } of proof) {
      if (violations > 0) this.#tell('violation', `${invariant}: broken ${violations} times, such as ${example}`)
    }
    return proof
  }

  #farewell(seconds: number): string {
    const lines = [`${seconds} s with the seed ${this.#staging.seed}: ${this.#violations} violations.`]
    for (const how of ['killed', 'frozen'] as const) {
      const { instances, takeovers, medianMs, longestMs } = this.#losses(how)
      const times = takeovers === 0 ? '' : `, median ${inSeconds(medianMs!)}, longest ${inSeconds(longestMs!)}`
      lines.push(`Instances ${how}: ${instances}; pieces of their work that went on elsewhere: ${takeovers}${times}.`)
    }
    return lines.join('\n')
  }

  #losses(how: 'killed' | 'frozen'): Losses {
    const times = this.#takeoverMs[how].map(Math.round).sort((a, b) => a - b)
    return {
      instances: this.#lost[how],
      takeovers: times.length,
      medianMs: times[Math.floor(times.length / 2)] ?? null,
      longestMs: times.at(-1) ?? null,
    }
  }

  #tell(event: DemoEvent, text: string, about: Omit<Happening, 'event' | 'text'> = {}): void {
    // How the rest hand over to each other while they close is of no interest.
    if (this.#isClosing && !['proof', 'violation', 'died', 'end'].includes(event)) return
    this.#staging.story.tell({ event, text, ...about })
  }
}

/** The first few of them, so that a line stays one. */
function listed(parts: readonly string[], most = 5): string {
  const shown = parts.slice(0, most).join(', ')
  return parts.length > most ? `${shown} and ${parts.length - most} more` : shown
}

function inSeconds(ms: number): string {
  return ms < 10 ? '0.01 s' : `${(ms / 1_000).toFixed(ms < 1_000 ? 2 : 1)} s`
}
