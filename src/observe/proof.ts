import { loadStatements, type Reader, type Statement } from '../postgres/index.js'
import { Together } from './together.js'

/** What must always be true, held against what the database knows. */
export interface Invariant {
  /** As the design numbers it. */
  readonly number: number
  /** What it promises: `At most one holder of a name`. */
  readonly says: string
  /** What is counted by `checked`: `names`. */
  readonly of: string
  readonly checked: number
  /** Facts that speak against it, and did for long enough that nothing can be about to mend them. */
  readonly violations: number
  /** Facts that speak against it, and may be gone at the next look. */
  readonly suspects: number
  /** The first violations, as sentences. */
  readonly facts: readonly string[]
  /** The query, ready for psql. */
  readonly sql: string
}

/** One look at all of them. */
export interface Proven {
  /** By the database's clock. */
  readonly at: Date
  readonly invariants: readonly Invariant[]
}

interface Row {
  checked: number
  wrong: number
  facts: string[] | null
}

const promises = {
  one_holder: { number: 1, says: 'At most one holder of a name, as a lock or by lease', of: 'names' },
  fences_grow: { number: 2, says: 'A later holder has a larger fence', of: 'terms' },
  no_leaks: { number: 3, says: 'Nothing is held beyond the time of its holder', of: 'holds' },
  no_job_lost: { number: 4, says: 'No job is lost, whoever dies', of: 'jobs' },
  one_end: { number: 5, says: 'One record of the end of a job', of: 'ended jobs' },
  one_run: { number: 6, says: 'One run per tick, or one reason for having none', of: 'ticks' },
  one_answer: { number: 7, says: 'One answer per delivery', of: 'deliveries' },
  permits_kept: { number: 8, says: 'Never more permits than the limit', of: 'limits' },
} as const

type Promised = keyof typeof promises
type Answers = Record<Promised, Row> & { clock: { now_ms: number } }

/** A worker that died has its jobs for a moment, a note may be struck out late: what is wrong for less than this counts as being mended. */
const mendedWithinMs = 20_000
const mostFacts = 5

/** Looks whether the promises hold: one statement. What it suspects at one look it only says when the next finds the same. */
export class Proof {
  readonly #reader: Reader
  readonly #statements: Record<Promised | 'clock', Statement>
  readonly #together: Together<Answers>
  /** Since when the facts have been seen at every look. */
  #seen = new Map<string, number>()

  constructor(reader: Reader, schema: string) {
    this.#reader = reader
    this.#statements = loadStatements<Promised | 'clock'>(new URL('./proof.sql', import.meta.url), schema)
    this.#together = new Together<Answers>(this.#statements)
  }

  async look(withinMs = mendedWithinMs): Promise<Proven> {
    const answers = await this.#together.ask(this.#reader)
    const now = performance.now()
    const seen = new Map<string, number>()
    const names = Object.keys(promises) as Promised[]
    const invariants = names.map((name) => {
      const { checked, wrong, facts } = answers[name][0]!
      const told = facts ?? []
      const lasting = told.filter((fact) => {
        const since = this.#seen.get(`${name} ${fact}`) ?? now
        seen.set(`${name} ${fact}`, since)
        return now - since >= withinMs
      })
      // Where there are more than are told one by one, they are as lasting as those.
      const violations = lasting.length === told.length ? wrong : lasting.length
      return {
        ...promises[name],
        checked,
        violations,
        suspects: wrong - violations,
        facts: lasting.slice(0, mostFacts),
        sql: this.#statements[name].text,
      }
    })
    this.#seen = seen
    return { at: new Date(answers.clock[0]!.now_ms), invariants }
  }
}
