import { HoldfastError, pause } from '../base/index.js'
import { DatabaseUnreachableError, migrate } from '../postgres/index.js'
import { capacity } from './capacity.js'
import { clocks } from './clocks.js'
import { connectionPath } from './connection-path.js'
import { type Check, DoctorContext, type ExamineOptions, type Server } from './doctor-context.js'
import { drift } from './drift.js'
import { type Finding, finding, worstFirst } from './finding.js'
import { fleet } from './fleet.js'
import { notifications } from './notifications.js'
import { openSnapshots } from './open-snapshots.js'
import { owners } from './owners.js'
import { queues } from './queues.js'
import { rights } from './rights.js'
import { schedules } from './schedules.js'
import { schema } from './schema.js'
import { sequences } from './sequences.js'
import { settings } from './settings.js'
import { standbys } from './standbys.js'
import { tables } from './tables.js'

/** The doctor's findings, and the database that it examined. */
export interface Diagnosis {
  /** Address of the database, without a password. */
  readonly address: string
  /** Schema that contains Holdfast's tables. */
  readonly schema: string
  /** Name and version of the server, such as `PostgreSQL 18.4`. */
  readonly server: string
  /** Number of checks. */
  readonly checks: number
  /** Examined areas, with the number of findings of each severity. */
  readonly areas: {
    /** Database, schema and settings. */
    readonly configuration: AreaSummary
    /** Running instances, their queues and their schedules. */
    readonly fleet: AreaSummary
  }
  /** Number of live instances. */
  readonly alive: number
  /** Number of instances whose heartbeat stopped without a clean shutdown. */
  readonly lost: number
  /** Findings, starting with the most severe. */
  readonly findings: readonly Finding[]
}

/** Number of checks and of findings, by severity. */
export interface AreaSummary {
  /** Number of checks. */
  readonly checks: number
  /** Number of findings with the severity `wrong`. */
  readonly wrong: number
  /** Number of findings with the severity `risky`. */
  readonly risky: number
  /** Number of checks that could not run. */
  readonly unchecked: number
  /** Number of notes. */
  readonly note: number
}

/**
 * All checks, in the order in which they run. Later checks use the schema version and the connection path that the
 * first two checks find.
 */
const checks: readonly Check[] = [
  schema,
  connectionPath,
  rights,
  drift,
  sequences,
  settings,
  capacity,
  notifications,
  owners,
  openSnapshots,
  tables,
  fleet,
  queues,
  schedules,
  clocks,
  standbys,
]

/**
 * Finds current and future problems in the database and the fleet. Changes nothing. If a check fails, the doctor
 * reports a finding with the severity `unchecked`. Rejects only if the database is unreachable.
 *
 * @example
 * const { findings } = await examine({ database })
 * for (const { severity, text, fix } of findings) console.log(severity, text, fix.text)
 */
export async function examine(options: ExamineOptions): Promise<Diagnosis> {
  const context = new DoctorContext(options)
  const [server] = await context.queryAsOthers<Server>('server')
  context.server = server!
  const findings: { readonly check: Check; readonly found: readonly Finding[] }[] = []
  for (const check of checks) {
    if (check.needsSchema && !context.isInstalled) continue
    const result = await check.run(context).catch((error) => unchecked(context, check, error))
    findings.push({ check, found: [result].flat().filter((one) => one !== undefined) })
  }
  const instances = await context.instances().catch(() => [])
  const summaryOf = (isOfFleet: boolean): AreaSummary => {
    const own = findings.filter(({ check }) => (check.isOfFleet ?? false) === isOfFleet)
    const countOf = (wanted: Finding['severity']) =>
      own.flatMap(({ found }) => found).filter(({ severity }) => severity === wanted).length
    const severities = { wrong: countOf('wrong'), risky: countOf('risky'), unchecked: countOf('unchecked') }
    return { checks: own.length, ...severities, note: countOf('note') }
  }
  return {
    address: context.database.address,
    schema: context.schema,
    server: server!.version_text,
    checks: findings.length,
    areas: { configuration: summaryOf(false), fleet: summaryOf(true) },
    alive: instances.filter(({ alive }) => alive).length,
    lost: instances.filter(({ alive }) => !alive).length,
    findings: worstFirst(findings.flatMap(({ found }) => found)),
  }
}

const pollMs = 200

type FixProgress = Record<'phase' | 'unit' | 'done' | 'total', string>

/**
 * Applies the fix for a fixable finding. `onProgress` receives the progress that the server reports for large tables.
 */
export async function fix(
  options: ExamineOptions,
  finding: Finding,
  onProgress: (progress: string) => void = () => {},
): Promise<void> {
  const context = new DoctorContext(options)
  const done = new AbortController()
  const pollProgress = async () => {
    while (!done.signal.aborted) {
      await pause(pollMs, done.signal)
      // An error in the progress query must not stop the fix.
      const [now] = await context.query<FixProgress>('fix_progress', [context.quotedSchema]).catch(() => [])
      if (now && !done.signal.aborted) {
        onProgress(now.total === '0' ? now.phase : `${now.phase}, ${now.done} of ${now.total} ${now.unit}`)
      }
    }
  }
  const polling = pollProgress()
  try {
    await applyFix(context, finding)
  } finally {
    done.abort()
    await polling
  }
}

async function applyFix({ database, schema }: DoctorContext, { id, fix }: Finding): Promise<void> {
  // A fixable finding contains no command other than `holdfast migrate`.
  if (fix.commands.length > 0) await migrate(database, schema)
  for (const statement of fix.sql) {
    await database.query(statement).catch((error) => {
      // Behind a pooler, this connection may have used the session that was just terminated.
      if (id !== 'lock-of-dead-owner' || !(error instanceof DatabaseUnreachableError)) throw error
    })
  }
}

async function unchecked(context: DoctorContext, { name }: Check, error: unknown): Promise<Finding> {
  if (!(error instanceof HoldfastError)) throw error
  // This query rejects if the database is unreachable. Otherwise, the problem affects only the failed query.
  if (error instanceof DatabaseUnreachableError) await context.queryAsOthers('clock')
  return finding({
    id: 'unchecked',
    severity: 'unchecked',
    subject: name,
    text: `Could not check ${name}: ${error.message}`,
    why: 'The doctor cannot rule out the problems that this check looks for.',
    facts: { check: name, code: error.code },
    fix: {
      text: error.hint ?? 'Run the doctor again. If the check times out again, find the session that locks the tables.',
    },
  })
}
