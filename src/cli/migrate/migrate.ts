import {
  type Applied,
  applyGrants,
  checkSchema,
  type Database,
  type Grantee,
  isUpToDate,
  migrate,
  migrationScript,
  planGrants,
  type RoomFunctions,
  roleKinds,
  schemaState,
  stepsOf,
} from '../../postgres/index.js'
import { connect } from '../connect.js'
import type { MigrateDocument, MigrationLine, MigrationStep } from '../documents.js'
import { Exit, exitCode, printMessage } from '../failure.js'
import { countText, plainColumns, printJson, printRows, write } from '../output.js'
import { Progress } from '../progress.js'
import type { Settings } from '../settings.js'

export async function migrateSchema(settings: Settings): Promise<void> {
  const { database, schema } = connect(settings)
  try {
    const state = await schemaState(database, schema)
    const upToDate = isUpToDate(state)
    // If no step is pending, this check fails only if the schema is too new for this version of Holdfast.
    if (upToDate) checkSchema(state, schema)
    const grants = await planGrants(database, schema, readGrantees(settings))
    if (settings.flag('showSql')) {
      if (upToDate) printMessage(isUpToDateText(schema))
      else write([migrationScript(state, schema)])
      write(grants.map((statement) => `${statement};`))
    } else if (settings.flag('check') || settings.flag('dryRun')) {
      const { version, pending, pendingFunctions } = state
      const functions = roomList(pendingFunctions)
      print(settings, { schema, version, pending: pending.map(step), functions, grants })
      printMessage(
        upToDate ? isUpToDateText(schema) : `${counted(pending, functions)} to apply to the schema ${schema}.`,
      )
      if (settings.flag('check') && !upToDate) throw new Exit(exitCode.conditionNotMet)
    } else {
      const applied = await apply(settings, database, schema, stepsOf(state))
      const functions = roomList(applied.functions)
      await applyGrants(database, grants)
      const { version } = await schemaState(database, schema)
      print(settings, { schema, version, applied: applied.migrations.map(step), functions, grants })
      const isDryRun = applied.migrations.length === 0 && functions.length === 0
      printMessage(
        isDryRun
          ? isUpToDateText(schema)
          : `${counted(applied.migrations, functions)} applied to the schema ${schema}.`,
      )
      for (const { role, as } of readGrantees(settings)) printMessage(`The role ${role} has the rights of an ${as}.`)
    }
  } finally {
    await database.close()
  }
}

/** Applies the pending steps. The displayed progress skips steps that another process applies at the same time. */
async function apply(settings: Settings, database: Database, schema: string, all: number): Promise<Applied> {
  using progress = new Progress(settings)
  return await migrate(database, schema, ({ version, name }, pending) =>
    progress.show(`${all - pending + 1} of ${all}: ${version} ${name}`),
  )
}

function readGrantees(settings: Settings): Grantee[] {
  return roleKinds.flatMap((as) => (settings.list(as) ?? []).map((role) => ({ role, as })))
}

function print(settings: Settings, document: MigrateDocument): void {
  const functions = document.functions.map((room) => ({ version: 'functions', name: room }) as const)
  if (settings.flag('json')) printJson<'migrate'>(document)
  else printRows<'migrate'>(settings, [...(document.pending ?? document.applied ?? []), ...functions], columns)
}

const columns = plainColumns<MigrationLine>({ VERSION: 'version', NAME: 'name' })

const step = ({ version, name }: MigrationStep): MigrationStep => ({ version, name })
const roomList = (functions: readonly RoomFunctions[]) => functions.map(({ room }) => room)
const isUpToDateText = (schema: string) => `The schema ${schema} is up to date.`

/** Returns the beginning of a sentence, such as "1 migration and the functions of 7 modules". */
function counted(migrations: readonly unknown[], rooms: readonly unknown[]): string {
  const functions = `functions of ${countText(rooms.length, 'module')}`
  if (migrations.length === 0) return `The ${functions}`
  return countText(migrations.length, 'migration') + (rooms.length === 0 ? '' : ` and the ${functions}`)
}
