import { UsageError } from '../../base/index.js'
import type { ImplementedJob, ScheduleDefinition } from '../../index.js'
import type { ExportedValue } from './exports.js'

export interface Definitions {
  readonly jobs: readonly ImplementedJob[]
  readonly schedules: readonly ScheduleDefinition[]
}

/** Finds job and schedule definitions among the files' exports. */
export function findDefinitions(exported: readonly ExportedValue[]): Definitions {
  const jobs = byName(exported, isJob, ({ kind }) => kind)
  const schedules = byName(exported, isSchedule, ({ name }) => name)
  if (jobs.length + schedules.length > 0) return { jobs, schedules }
  throw new UsageError(
    'Expected files that export definitions made by defineJob or defineSchedule, got none',
    "For example: export const sendEmail = defineJob('send-email', { run: async (input) => { … } }). A definition without a handler needs implement(definition, run).",
  )
}

function byName<T>(
  exported: readonly ExportedValue[],
  isDefinition: (value: unknown) => value is T,
  nameOf: (definition: T) => string,
): T[] {
  const found = new Map<string, { file: string; value: T }>()
  for (const { file, value } of exported) {
    if (!isDefinition(value)) continue
    const name = nameOf(value)
    const other = found.get(name)
    if (other && other.value !== value) {
      throw new UsageError(
        `Two definitions are named "${name}": one in ${other.file}, one in ${file}`,
        'A worker finds a definition by its name, so each name must be unique.',
      )
    }
    found.set(name, { file, value })
  }
  return [...found.values()].map(({ value }) => value)
}

/** Checks the members instead of the class, because the user's file may import a different copy of this package. */
function isJob(value: unknown): value is ImplementedJob {
  const { kind, queue, attempts, run } = (value ?? {}) as Partial<ImplementedJob>
  return (
    typeof kind === 'string' && typeof queue === 'string' && typeof attempts === 'number' && typeof run === 'function'
  )
}

function isSchedule(value: unknown): value is ScheduleDefinition {
  const { name, rule, overlap, work } = (value ?? {}) as Partial<ScheduleDefinition>
  return (
    typeof name === 'string' &&
    typeof rule?.text === 'string' &&
    typeof overlap === 'string' &&
    typeof work === 'function'
  )
}
