import {
  checkSchema,
  type Database,
  type Grantee,
  grant,
  grantsOf,
  type Migration,
  migrate,
  migrationScript,
  roleKinds,
  schemaState,
} from '../../postgres/index.js'
import { connect } from '../connect.js'
import type { MigrateDocument, MigrationStep } from '../documents.js'
import { Exit, exitCode, say } from '../failure.js'
import { type Column, printJson, printRows, write } from '../output.js'
import { Progress } from '../progress.js'
import type { Settings } from '../settings.js'

export async function migrateSchema(settings: Settings): Promise<void> {
  const { database, schema } = connect(settings)
  try {
    const state = await schemaState(database, schema)
    // With nothing pending, what remains to be wrong is a schema too new for this version of Holdfast.
    if (state.pending.length === 0) checkSchema(state, schema)
    const grants = await grantsOf(database, schema, granteesOf(settings))
    if (settings.flag('showSql')) {
      if (state.pending.length > 0) write([migrationScript(state.pending, schema)])
      else say(upToDate(schema))
      write(grants.map((statement) => `${statement};`))
    } else if (settings.flag('check') || settings.flag('dryRun')) {
      print(settings, { schema, version: state.version, pending: state.pending.map(step), grants })
      say(state.pending.length > 0 ? `${count(state.pending)} to apply to the schema ${schema}.` : upToDate(schema))
      if (settings.flag('check') && state.pending.length > 0) throw new Exit(exitCode.conditionNotMet)
    } else {
      const applied = await apply(settings, database, schema, state.pending.length)
      await grant(database, grants)
      const { version } = await schemaState(database, schema)
      print(settings, { schema, version, applied: applied.map(step), grants })
      say(applied.length > 0 ? `${count(applied)} applied to the schema ${schema}.` : upToDate(schema))
      for (const { role, as } of granteesOf(settings)) say(`The role ${role} has the rights of an ${as}.`)
    }
  } finally {
    await database.close()
  }
}

/** Others may apply some of them meanwhile: then fewer are left, and we tell so. */
async function apply(settings: Settings, database: Database, schema: string, all: number): Promise<Migration[]> {
  using progress = new Progress(settings)
  return await migrate(database, schema, ({ version, name }, pending) =>
    progress.tell(`${all - pending + 1} of ${all}: ${version} ${name}`),
  )
}

function granteesOf(settings: Settings): Grantee[] {
  return roleKinds.flatMap((as) => (settings.list(as) ?? []).map((role) => ({ role, as })))
}

function print(settings: Settings, answer: MigrateDocument): void {
  if (settings.flag('json')) printJson<'migrate'>(answer)
  else printRows<'migrate'>(settings, answer.pending ?? answer.applied ?? [], columns)
}

const columns: Column<MigrationStep>[] = [
  { title: 'VERSION', value: ({ version }) => version },
  { title: 'NAME', value: ({ name }) => name },
]

const step = ({ version, name }: MigrationStep): MigrationStep => ({ version, name })
const count = (steps: readonly unknown[]) => `${steps.length} ${steps.length === 1 ? 'migration' : 'migrations'}`
const upToDate = (schema: string) => `The schema ${schema} is up to date.`
