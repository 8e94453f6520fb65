import { HoldfastError, pause } from '../base/index.js'
import { DatabaseUnreachableError, migrate } from '../postgres/index.js'
import { capacity } from './capacity.js'
import { clocks } from './clocks.js'
import { drift } from './drift.js'
import { type Finding, finding, worstFirst } from './finding.js'
import { fleet } from './fleet.js'
import { horizon } from './horizon.js'
import { notifications } from './notifications.js'
import { owners } from './owners.js'
import { path } from './path.js'
import { type Check, Patient, type PatientOptions, type Server } from './patient.js'
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
  path,
  rights,
  drift,
  sequences,
  settings,
  capacity,
  notifications,
  owners,
  horizon,
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
 * for (const { severity, seen, mend } of findings) console.log(severity, seen, mend.what)
 */
export async function examine(options: PatientOptions): Promise<Diagnosis> {
  const patient = new Patient(options)
  const [server] = await patient.askPlainly<Server>('server')
  patient.server = server!
  const findings: Finding[] = []
  let made = 0
  for (const check of checks) {
    if (check.needsSchema && !patient.isInstalled) continue
    made++
    findings.push(...(await check.look(patient).catch((error) => unchecked(patient, check, error))))
  }
  return {
    address: patient.database.address,
    schema: patient.schema,
    server: server!.version_text,
    checks: made,
    findings: worstFirst(findings),
  }
}

const lookAgainMs = 200

interface Mending {
  readonly phase: string
  readonly unit: string
  readonly done: string
  readonly total: string
}

/** Does what a fixable finding says. Large tables take their time: `tell` hears how far the server is, by its own account. */
export async function mend(
  options: PatientOptions,
  finding: Finding,
  tell: (howFar: string) => void = () => {},
): Promise<void> {
  const patient = new Patient(options)
  const over = new AbortController()
  const watching = async () => {
    while (!over.signal.aborted) {
      await pause(lookAgainMs, over.signal)
      // To tell is a courtesy; that it cannot be told keeps nothing from being mended.
      const [now] = await patient.ask<Mending>('mending', [patient.quotedSchema]).catch(() => [])
      if (now && !over.signal.aborted) {
        tell(now.total === '0' ? now.phase : `${now.phase}, ${now.done} of ${now.total} ${now.unit}`)
      }
    }
  }
  const watched = watching()
  try {
    await carryOut(patient, finding)
  } finally {
    over.abort()
    await watched
  }
}

async function carryOut({ database, schema }: Patient, { id, mend }: Finding): Promise<void> {
  // The one command among them.
  if (mend.commands.length > 0) await migrate(database, schema)
  for (const statement of mend.sql) {
    await database.query(statement).catch((error) => {
      // A pooler may have given us the very session that was to be ended.
      if (id !== 'lock-of-dead-owner' || !(error instanceof DatabaseUnreachableError)) throw error
    })
  }
}

async function unchecked(patient: Patient, { name }: Check, error: unknown): Promise<Finding[]> {
  if (!(error instanceof HoldfastError)) throw error
  // The database itself, or only what was asked?
  if (error instanceof DatabaseUnreachableError) await patient.askPlainly('clock')
  return [
    finding({
      id: 'unchecked',
      severity: 'unchecked',
      subject: name,
      seen: `Could not look at ${name}: ${error.message}`,
      why: 'What was not looked at may be wrong.',
      facts: { check: name, code: error.code },
      mend: { what: error.hint ?? 'Try again; where it takes too long, see who keeps a lock on the tables.' },
    }),
  ]
}
