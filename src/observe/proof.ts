import { loadStatements, type Reader, type Statement } from '../postgres/index.js'
import { CombinedQuery } from './combined-query.js'

/** What must always be true, held against what the database knows. */
export interface Invariant {
  /** As the design numbers it. */
  readonly number: number
  /** What it promises: `At most one holder of a name`. */
  readonly text: string
  /** What is counted by `checked`: `names`. */
  readonly unit: string
  readonly checked: number
  /** Facts that speak against it, and did for long enough that nothing can be about to repair them. */
  readonly violations: number
  /** Facts that speak against it, and may be gone at the next look. */
  readonly suspects: number
  /** The first violations, as sentences. */
  readonly facts: readonly string[]
  /** The query, ready for psql. */
  readonly sql: string
}

/** One look at all of them. */
export interface ProofReport {
  /** By the database's clock. */
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
  no_leaks: { number: 3, text: 'Nothing is held beyond the time of its holder', unit: 'holds' },
  no_job_lost: { number: 4, text: 'No job is lost, whoever dies', unit: 'jobs' },
  one_end: { number: 5, text: 'One record of the end of a job', unit: 'ended jobs' },
  one_run: { number: 6, text: 'One run per tick, or one reason for having none', unit: 'ticks' },
  one_answer: { number: 7, text: 'One answer per delivery', unit: 'deliveries' },
  permits_kept: { number: 8, text: 'Never more permits than the limit', unit: 'limits' },
} as const

type InvariantName = keyof typeof promises
type ProofAnswer = Record<InvariantName, InvariantRow> & { clock: { now_ms: number } }

/** A worker that died has its jobs for a moment, a note may be struck out late: what is wrong for less than this counts as being repaired. */
const repairWithinMs = 20_000
const maxFacts = 5

/** Looks whether the promises hold: one statement. What it suspects at one look it only says when the next finds the same. */
export class Proof {
  readonly #reader: Reader
  readonly #statements: Record<InvariantName | 'clock', Statement>
  readonly #query: CombinedQuery<ProofAnswer>
  /** Since when the facts have been seen at every look. */
  #firstSeen = new Map<string, number>()

  constructor(reader: Reader, schema: string) {
    this.#reader = reader
    this.#statements = loadStatements<InvariantName | 'clock'>(new URL('./proof.sql', import.meta.url), schema)
    this.#query = new CombinedQuery<ProofAnswer>(this.#statements)
  }

  async check(withinMs = repairWithinMs): Promise<ProofReport> {
    const answers = await this.#query.read(this.#reader)
    const now = performance.now()
    const seen = new Map<string, number>()
    const names = Object.keys(promises) as InvariantName[]
    const invariants = names.map((name) => {
      const { checked, wrong, facts } = answers[name][0]!
      const listed = facts ?? []
      const lasting = listed.filter((fact) => {
        const since = this.#firstSeen.get(`${name} ${fact}`) ?? now
        seen.set(`${name} ${fact}`, since)
        return now - since >= withinMs
      })
      // Where there are more than are told one by one, they are as lasting as those.
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
    return { at: new Date(answers.clock[0]!.now_ms), invariants }
  }
}
