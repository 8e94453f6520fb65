import { loadStatements, type Reader, type Statement } from '../postgres/index.js'
import { CombinedQuery } from './combined-query.js'

/** A Holdfast invariant and the result of its check. */
export interface Invariant {
  /** Number of the invariant in the design document. */
  readonly number: number
  /** The guarantee, such as `At most one holder of a name`. */
  readonly text: string
  /** Unit of `checked`, such as `names`. */
  readonly unit: string
  readonly checked: number
  /** Number of contradictions that lasted longer than the fleet needs to repair them. */
  readonly violations: number
  /** Number of contradictions that the fleet may still repair. */
  readonly suspects: number
  /** First violations, as sentences. */
  readonly facts: readonly string[]
  /** Query for psql. */
  readonly sql: string
}

export interface ProofReport {
  /** Time of the check, by the database clock. */
  readonly at: Date
  readonly invariants: readonly Invariant[]
}

interface InvariantRow {
  checked: number
  wrong: number
  facts: string[] | null
}

const promises = {
  one_holder: { number: 1, text: 'At most one holder of a name, as a lock or by lease', unit: 'names' },
  fences_grow: { number: 2, text: 'A later holder has a larger fence', unit: 'terms' },
  no_leaks: { number: 3, text: 'Nothing is held longer than its holder may be silent', unit: 'holds' },
  no_job_lost: { number: 4, text: 'No job is lost, whichever process dies', unit: 'jobs' },
  one_end: { number: 5, text: 'One record of the end of a job', unit: 'ended jobs' },
  one_run: { number: 6, text: 'One run per tick, or one reason for having none', unit: 'ticks' },
  one_answer: { number: 7, text: 'One answer per delivery', unit: 'deliveries' },
  permits_kept: { number: 8, text: 'Never more permits than the maximum of the limit', unit: 'limits' },
} as const

type InvariantName = keyof typeof promises
type ProofRows = Record<InvariantName, InvariantRow> & { clock: { now_ms: number } }

/**
 * Time that a fleet has to repair a contradiction. For example, it recovers a dead worker's jobs within seconds. Older
 * contradictions are violations.
 */
const repairWithinMs = 20_000
const maxFacts = 5

/** Checks all invariants with one statement. A contradiction becomes a violation if a later check finds it again. */
export class Proof {
  readonly #reader: Reader
  readonly #statements: Record<InvariantName | 'clock', Statement>
  readonly #query: CombinedQuery<ProofRows>
  /** For each fact, the time of the first check in the unbroken series of checks that found it. */
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
      // Only some facts are listed. If all listed facts are lasting, the facts that are not listed count as lasting
      // too.
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
