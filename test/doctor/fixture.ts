import { expect } from 'vitest'
import { type Diagnosis, type ExamineOptions, examine, type Finding, type FindingId } from '../../src/doctor/index.js'
import { openPgPool } from '../../src/postgres/index.js'
import { bin, startProgram } from '../cli/program.js'
import { sql } from '../setup/facts.js'

export type Options = Partial<Omit<ExamineOptions, 'database'>>

/** Returns the diagnosis of a database. */
export async function examineDatabase(url: string, options: Options = {}): Promise<Diagnosis> {
  const database = openPgPool({ connectionString: url })
  try {
    return await examine({ database, ...options })
  } finally {
    await database.close()
  }
}

type Ids = FindingId | readonly FindingId[]
const among = (ids: Ids, { id }: Finding) => (typeof ids === 'string' ? ids === id : ids.includes(id))

/** Returns the findings of one kind or of several kinds. Fails if a kind has no finding. */
export async function found(url: string, ids: Ids, options: Options = {}): Promise<Finding[]> {
  const { findings } = await examineDatabase(url, options)
  const these = findings.filter((finding) => among(ids, finding))
  const missing = [ids].flat().filter((wanted) => !these.some(({ id }) => id === wanted))
  expect(missing, `among ${idsOf(findings)}`).toEqual([])
  return these
}

export function idsOf(findings: readonly Finding[]): string[] {
  return findings.map(({ id, subject }) => (subject === null ? id : `${id}: ${subject}`))
}

/** Applies the printed fix as a reader would: SQL one statement at a time, and commands in a shell. */
export async function applyFix(url: string, { fix }: Finding): Promise<void> {
  expect(fix.sql.length + fix.commands.length, 'the fix contains SQL or commands').toBeGreaterThan(0)
  for (const statement of fix.sql) await sql(url, statement)
  for (const command of fix.commands) {
    const words = command.replace(/^holdfast /, `'${process.execPath}' '${bin}' `)
    const { status, stderr } = await startProgram('sh', ['-c', words], { DATABASE_URL: url }).ended
    expect(status, stderr).toBe(0)
  }
}

/** Expects that no finding of these kinds is left. */
export async function isGone(url: string, ids: Ids, options: Options = {}): Promise<void> {
  const { findings } = await examineDatabase(url, options)
  expect(idsOf(findings.filter((finding) => among(ids, finding)))).toEqual([])
}

/**
 * Expects findings of these kinds, applies their printed fixes, and expects that the findings are gone. Returns the findings.
 */
export async function fixes(url: string, ids: Ids, { as = url, ...options }: Options & { as?: string } = {}) {
  const these = await found(url, ids, options)
  for (const finding of these) await applyFix(as, finding)
  await isGone(url, ids, options)
  return these
}
