import { commandFor } from '../base/index.js'
import {
  functionsRevision,
  isUpToDate,
  knownVersion,
  type SchemaState,
  schemaState,
  stepsOf,
} from '../postgres/index.js'
import { counted, type Finding, finding, listed } from './finding.js'
import type { Check, Patient } from './patient.js'

/** Which migrations were applied. */
export const schema: Check = {
  name: 'the version of the schema',
  needsSchema: false,
  async look(patient): Promise<Finding[]> {
    const state = await schemaState(patient.executor, patient.schema)
    const known = knownVersion(patient.schema)
    patient.version = state.version
    patient.pending = stepsOf(state)
    patient.hasOurFunctions = state.revision === functionsRevision && state.pendingFunctions.length === 0
    if (state.version === 0) return [notInstalled(patient)]
    if (state.version > known) return [newer(patient, state.version, state.worksFrom, known)]
    if (isUpToDate(state)) return []
    return [
      finding({
        id: 'migrations-pending',
        severity: 'wrong',
        seen: whatIsPending(patient.schema, state, known),
        why: 'An instance of this version that opens with migrate: false is refused.',
        facts: { version: state.version, needed: known },
        mend: { what: 'Apply them. Running instances go on.', commands: [migrateCommand(patient)], fixable: true },
      }),
    ]
  },
}

function whatIsPending(schema: string, { version, revision, pending, pendingFunctions }: SchemaState, known: number) {
  if (pending.length > 0) {
    return `The schema ${schema} is at version ${version}, and this version of Holdfast needs ${known}: ${counted(pending.length, 'migration')} not applied`
  }
  const rooms = listed(pendingFunctions.map(({ room }) => room))
  return `The functions of the schema ${schema} have revision ${revision}, and this version of Holdfast has other ones, of revision ${functionsRevision}: ${rooms}`
}

function migrateCommand({ schema }: Patient): string {
  return commandFor('migrate', { schema })
}

function notInstalled(patient: Patient): Finding {
  return finding({
    id: 'not-installed',
    severity: 'wrong',
    seen: `Holdfast is not installed in the schema ${patient.schema} of this database`,
    why: 'There is nothing to coordinate with. If it should be there: is this the right database?',
    facts: { schema: patient.schema, database: patient.server.database },
    mend: { what: 'Install it.', commands: [migrateCommand(patient)], fixable: true },
  })
}

function newer(patient: Patient, version: number, worksFrom: number, known: number): Finding {
  const works = worksFrom <= known
  return finding({
    id: 'schema-newer',
    severity: works ? 'note' : 'wrong',
    seen: `The schema ${patient.schema} is at version ${version}, newer than the ${known} that this version of Holdfast knows${works ? ', and works with it' : ''}`,
    why: works
      ? 'As in the middle of a deployment. What the newer version has added is not looked at here.'
      : 'Instances of this version cannot open.',
    facts: { version, works_from: worksFrom, known },
    mend: {
      what: 'Use the version of Holdfast that the fleet was deployed with.',
      commands: ['npm install holdfast@latest'],
    },
  })
}
