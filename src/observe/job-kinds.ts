import type { JsonSchema } from '../base/index.js'
import { loadStatements, type Reader, type Statement } from '../postgres/index.js'
import { readDocument } from './rows.js'

export interface JobKindFilter {
  readonly namespace?: string | undefined
  readonly queue?: string | undefined
  readonly kind?: string | undefined
}

/** Kind of job that workers have registered. */
export interface ObservedJobKind {
  readonly namespace: string
  /** Queue of the definition. */
  readonly queue: string
  readonly kind: string
  /** JSON schema of the input. Null if the definition has no schema, or has a schema that cannot be converted. */
  readonly inputSchema: JsonSchema | null
  /** Whether a live worker claims jobs of this kind. */
  readonly isServed: boolean
}

const maxKinds = 1_000

/** Reads kinds of jobs. Part of the `Observer`. */
export class JobKindsObserver {
  readonly #reader: Reader
  readonly #sql: Record<'job_kinds', Statement>

  constructor(reader: Reader, schema: string) {
    this.#reader = reader
    this.#sql = loadStatements(new URL('./job-kinds.sql', import.meta.url), schema)
  }

  /** Lists kinds by namespace and name, without their schemas. */
  async list(only: JobKindFilter): Promise<Omit<ObservedJobKind, 'inputSchema'>[]> {
    const rows = await this.#read(only, false)
    return rows.map(({ inputSchema: _, ...kind }) => kind)
  }

  /** Returns one kind. Returns null if no worker has registered it. */
  async find(kind: Required<JobKindFilter>): Promise<ObservedJobKind | null> {
    return (await this.#read(kind, true))[0] ?? null
  }

  async #read({ namespace, queue, kind }: JobKindFilter, withSchemas: boolean): Promise<ObservedJobKind[]> {
    const values = [namespace ?? null, queue ?? null, kind ?? null, maxKinds, withSchemas]
    const answer = await readDocument<{ rows: ObservedJobKind[] | null }>(this.#reader, this.#sql.job_kinds, values)
    return answer?.rows ?? []
  }
}
