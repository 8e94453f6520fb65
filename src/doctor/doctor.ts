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

/** Findings of the doctor, and the database that was examined. */
export interface Diagnosis {
  /** Address of the database, without a password. */
  readonly address: string
  /** Schema that contains the tables of Holdfast. */
  readonly schema: string
  /** Name and version of the server, such as `PostgreSQL 18.4`. */
  readonly server: string
  /** Number of checks. */
  readonly checks: number
  /** Findings, the worst first. */
  readonly findings: readonly Finding[]
}

/** What others build on comes first: the version of the schema, and what stands before the server. */
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
 * Looks for what is wrong with the database and the fleet, or will be. It changes nothing, and whatever it cannot look at is a
 * finding, too. Rejects only where the database cannot be reached.
 *
 * @example
 * const { findings } = await examine({ database })
 * for (const { severity, seen, fix } of findings) console.log(severity, seen, fix.what)
 */
export async function examine(options: ExamineOptions): Promise<Diagnosis> {
  const context = new DoctorContext(options)
  const [server] = await context.queryAsOthers<Server>('server')
  context.server = server!
  const findings: Finding[] = []
  let made = 0
  for (const check of checks) {
    if (check.needsSchema && !context.isInstalled) continue
    made++
    findings.push(...(await check.run(context).catch((error) => unchecked(context, check, error))))
  }
  return {
    address: context.database.address,
    schema: context.schema,
    server: server!.version_text,
    checks: made,
    findings: worstFirst(findings),
  }
}

const pollMs = 200

interface FixProgress {
  readonly phase: string
  readonly unit: string
  readonly done: string
  readonly total: string
}

/** Does what a fixable finding says. Large tables take their time: `tell` hears how far the server is, by its own account. */
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
      // To tell is a courtesy; that it cannot be told keeps nothing from being fixed.
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
  // The one command among them.
  if (fix.commands.length > 0) await migrate(database, schema)
  for (const statement of fix.sql) {
    await database.query(statement).catch((error) => {
      // A pooler may have given us the very session that was to be ended.
      if (id !== 'lock-of-dead-owner' || !(error instanceof DatabaseUnreachableError)) throw error
    })
  }
}

async function unchecked(context: DoctorContext, { name }: Check, error: unknown): Promise<Finding[]> {
  if (!(error instanceof HoldfastError)) throw error
  // The database itself, or only what was asked?
  if (error instanceof DatabaseUnreachableError) await context.queryAsOthers('clock')
  return [
    finding({
      id: 'unchecked',
      severity: 'unchecked',
      subject: name,
      text: `Could not look at ${name}: ${error.message}`,
      why: 'What was not looked at may be wrong.',
      facts: { check: name, code: error.code },
      fix: { text: error.hint ?? 'Try again; where it takes too long, see who keeps a lock on the tables.' },
    }),
  ]
}
