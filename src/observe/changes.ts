import { describeRule } from '../cron/index.js'
import { loadStatements, type Reader, type Statement } from '../postgres/index.js'
import { readDocument } from './rows.js'
import { parseGivenRule } from './schedules.js'

/** Kinds of changes. */
export const changeKinds = [
  'act',
  'deployed',
  'instance-reconnected',
  'instances-closed',
  'instances-drained',
  'instances-joined',
  'instances-lost',
  'jobs-failed',
  'leader-changed',
  'queue-added',
  'queue-paused',
  'schedule-added',
  'schedule-changed',
  'schedule-failed',
  'schedule-paused',
  'schedule-skipped',
  'server-restarted',
] as const

export type ChangeKind = (typeof changeKinds)[number]

/** Kinds of changes that can explain a change in throughput or latency. */
export const markKinds = ['deployed', 'instances-lost', 'schedule-failed', 'server-restarted'] as const

const maxChanges = 200
/** Maximum number of rows that are read for each kind of change, each queue and each schedule. */
const maxPerSubject = 500

export interface ChangeFilter {
  readonly namespace?: string | undefined
  /** Number of hours to read, at most 48. Default 1. */
  readonly hours?: number | undefined
  readonly kinds?: readonly ChangeKind[] | undefined
  /** Maximum number of changes. Default 200. */
  readonly limit?: number | undefined
}

export interface Changes {
  /** Start of the period. */
  readonly from: Date
  /** End of the period, which is the time of the snapshot. */
  readonly until: Date
  /** Changes, latest first. */
  readonly rows: readonly Change[]
}

/** A change in the fleet. */
export interface Change {
  /** Kind of the change. */
  readonly kind: ChangeKind
  /** Time of the change. If the change consists of several events, the time of the latest event. */
  readonly at: Date
  /** Namespace of the subjects. Null if the change belongs to no namespace. */
  readonly namespace: string | null
  /**
   * Subjects of the change: at most 3 names of instances, the version of a deployment, the name of an election, a queue or a
   * schedule, the kind of jobs, or the visitor who acted. Empty if the server restarted.
   */
  readonly subjects: readonly string[]
  /** Number of instances, failed jobs, failed runs or skipped ticks. 1 for all other changes. */
  readonly count: number
  /**
   * Additional information: a schedule's rule, the reason why ticks were skipped, the message of the latest error, or
   * the act and its subject. Null if there is nothing to add.
   */
  readonly detail: string | null
  /** Name of the latest error. For an act: `failed`, `unfinished` or null. */
  readonly errorName: string | null
  /** ID of an instance that the change concerns. Null if there is none. */
  readonly instance: string | null
  /** Name of this instance. Null if the name is no longer known. */
  readonly instanceName: string | null
  /** ID of the job that failed last. Null for other changes. */
  readonly job: number | null
}

interface ChangesDocument {
  fromMs: number
  nowMs: number
  rows: (Omit<Change, 'at'> & { at: number })[] | null
}

/** Reads the fleet's changes. Part of the `Observer`. */
export class ChangeReader {
  readonly #reader: Reader
  readonly #sql: Record<'changes', Statement>

  constructor(reader: Reader, schema: string) {
    this.#reader = reader
    this.#sql = loadStatements(new URL('./changes.sql', import.meta.url), schema)
  }

  async read({ namespace, hours = 1, kinds, limit = maxChanges }: ChangeFilter): Promise<Changes> {
    const values = [namespace ?? null, hours, limit, kinds ?? null, maxPerSubject]
    const { fromMs, nowMs, rows } = (await readDocument<ChangesDocument>(this.#reader, this.#sql.changes, values))!
    return { from: new Date(fromMs), until: new Date(nowMs), rows: (rows ?? []).map(readChange) }
  }
}

function readChange({ at, detail, ...change }: Omit<Change, 'at'> & { at: number }): Change {
  const isRule = change.kind === 'schedule-added' || change.kind === 'schedule-changed'
  return { ...change, at: new Date(at), detail: isRule && detail ? describeRule(parseGivenRule(detail)) : detail }
}
