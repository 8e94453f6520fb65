import { loadStatements, type Reader, type Statement } from '../postgres/index.js'
import { CombinedQuery } from './combined-query.js'

/** A Holdfast invariant and the result of its check. */
export interface Invariant {
  /** Number that identifies the invariant. */
  readonly number: number
  /** The guarantee, such as `A name has at most one holder`. */
  readonly text: string
  /** Unit of `checked`, such as `names`. */
  readonly unit: string
  readonly checked: number
  /** Number of contradictions that have lasted longer than the fleet needs to resolve them. */
  readonly violations: number
  /** Number of recent contradictions, which the fleet may resolve without help. They are not violations yet. */
  readonly suspects: number
  /** First violations, as sentences. */
  readonly facts: readonly string[]
  /** Query for psql. */
  readonly sql: string
}

export interface ProofReport {
  /** Time of the check, according to the database clock. */
  readonly at: Date
  readonly invariants: readonly Invariant[]
}

interface InvariantRow {
  checked: number
  wrong: number
  facts: string[] | null
}

const promises = {
  one_holder: {
    number: 1,
    text: 'A name has at most one holder, whether it is held as a lock or as a lease',
    unit: 'names',
  },
  fences_grow: { number: 2, text: 'A later holder has a larger fencing token', unit: 'terms' },
  no_leaks: { number: 3, text: 'No name is held by an instance that has been silent for too long', unit: 'holds' },
  no_job_lost: { number: 4, text: 'No job is lost if a process dies', unit: 'jobs' },
  one_end: { number: 5, text: 'The end of a job is recorded exactly once', unit: 'ended jobs' },
  one_run: { number: 6, text: 'Each tick has one run, or one recorded reason why it did not run', unit: 'ticks' },
  one_answer: { number: 7, text: 'Each delivery has at most one result', unit: 'deliveries' },
  permits_kept: { number: 8, text: "The permits in use never exceed the limit's maximum", unit: 'limits' },
  one_record: { number: 9, text: 'Each step of a job is recorded once, by the owner of the job', unit: 'steps' },
} as const

type InvariantName = keyof typeof promises
type ProofRows = Record<InvariantName, InvariantRow> & { clock: { now_ms: number } }

/**
 * Time within which a fleet must resolve a contradiction. For example, a fleet recovers a dead worker's jobs within
 * seconds. Contradictions that last longer are violations.
 */
const repairWithinMs = 20_000
const maxFacts = 5

/**
 * Checks all invariants with one statement. A contradiction becomes a violation if every check keeps finding it until
 * this time has passed.
 */
export class Proof {
  readonly #reader: Reader
  readonly #statements: Record<InvariantName | 'clock', Statement>
  readonly #query: CombinedQuery<ProofRows>
  /** Maps each fact to the time when it was first found. A check removes the facts that it no longer finds. */
  #firstSeen = new Map<string, number>()

  constructor(reader: Reader, schema: string) {
    this.#reader = reader
    this.#statements = loadStatements<InvariantName | 'clock'>(new URL('./proof.sql', import.meta.url), schema)
    this.#query = new CombinedQuery<ProofRows>(this.#statements)
  }

  async check(withinMs = repairWithinMs): Promise<ProofReport> {
    const found = await this.#query.read(this.#reader)
    const now = performance.now()
    const seen = new Map<string, number>()
    const names = Object.keys(promises) as InvariantName[]
    const invariants = names.map((name) => {
      const { checked, wrong, facts } = found[name][0]!
      const listed = facts ?? []
      const lasting = listed.filter((fact) => {
        const since = this.#firstSeen.get(`${name} ${fact}`) ?? now
        seen.set(`${name} ${fact}`, since)
        return now - since >= withinMs
      })
      // The statement lists only some facts. If all listed facts have lasted long enough, the facts that are not listed also count as
      // lasting.
      const violations = lasting.length === listed.length ? wrong : lasting.length
      return {
        ...promises[name],
        checked,
        violations,
        suspects: wrong - violations,
        facts: lasting.slice(0, maxFacts),
        sql: this.#statements[name].text,
      }
    })
    this.#firstSeen = seen
    return { at: new Date(found.clock[0]!.now_ms), invariants }
  }
}
