import { commandLine } from '../base/index.js'
import {
  functionsRevision,
  isUpToDate,
  latestVersion,
  type SchemaState,
  schemaState,
  stepsOf,
} from '../postgres/index.js'
import type { Check, DoctorContext } from './doctor-context.js'
import { type Finding, finding, formatCount, formatList } from './finding.js'

export const schema: Check = {
  name: 'the schema version',
  async run(context) {
    const state = await schemaState(context.executor, context.schema)
    const known = latestVersion(context.schema)
    context.version = state.version
    context.pending = stepsOf(state)
    context.hasOurFunctions = state.revision === functionsRevision && state.pendingFunctions.length === 0
    if (state.version === 0) return notInstalled(context)
    if (state.version > known) return newerSchema(context, state.version, state.worksFrom, known)
    if (isUpToDate(state)) return undefined
    return finding({
      id: 'migrations-pending',
      severity: 'wrong',
      text: pendingText(context.schema, state, known),
      why: 'Instances that run this version of Holdfast cannot be opened with migrate: false.',
      facts: { version: state.version, needed: known },
      fix: {
        text: 'Migrate the schema. Running instances continue to work.',
        commands: [migrateCommand(context)],
        fixable: true,
      },
    })
  },
}

function pendingText(schema: string, { version, revision, pending, pendingFunctions }: SchemaState, known: number) {
  if (pending.length > 0) {
    return `The schema ${schema} is at version ${version}, but this version of Holdfast needs schema version ${known}. Pending: ${formatCount(pending.length, 'migration')}`
  }
  const rooms = formatList(pendingFunctions.map(({ room }) => room))
  return `The functions in the schema ${schema} have revision ${revision}, but this version of Holdfast needs revision ${functionsRevision}. Modules whose functions differ: ${rooms}`
}

function migrateCommand({ schema }: DoctorContext): string {
  return commandLine('migrate', { schema })
}

function notInstalled(context: DoctorContext): Finding {
  return finding({
    id: 'not-installed',
    severity: 'wrong',
    text: `Holdfast is not installed in the schema ${context.schema} of this database`,
    why: 'Instances cannot be opened. If you expected Holdfast to be installed, check that this is the right database.',
    facts: { schema: context.schema, database: context.server.database },
    fix: { text: 'Install Holdfast.', commands: [migrateCommand(context)], fixable: true },
  })
}

function newerSchema(context: DoctorContext, version: number, worksFrom: number, known: number): Finding {
  const works = worksFrom <= known
  return finding({
    id: 'schema-newer',
    severity: works ? 'note' : 'wrong',
    text: `The schema ${context.schema} is at version ${version}, but this version of Holdfast was built for schema version ${known}${works ? '. It also works with the newer schema' : ''}`,
    why: works
      ? 'This is normal during a deployment. The doctor does not check objects that the newer version added.'
      : 'Instances that run this version of Holdfast cannot be opened.',
    facts: { version, works_from: worksFrom, known },
    fix: {
      text: 'Use the version of Holdfast that the fleet runs.',
      commands: ['npm install holdfast@latest'],
    },
  })
}
