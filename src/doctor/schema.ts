import { commandFor } from '../base/index.js'
import { knownVersion, schemaState } from '../postgres/index.js'
import { counted, type Finding, finding } from './finding.js'
import type { Check, Patient } from './patient.js'

/** Which migrations were applied. */
export const schema: Check = {
  name: 'the version of the schema',
  needsSchema: false,
  async look(patient): Promise<Finding[]> {
    const state = await schemaState(patient.executor, patient.schema)
    const known = knownVersion(patient.schema)
    patient.version = state.version
    patient.pending = state.pending.length
    if (state.version === 0) return [notInstalled(patient)]
    if (state.version > known) return [newer(patient, state.version, state.worksFrom, known)]
    if (state.pending.length === 0) return []
    return [
      finding({
        id: 'migrations-pending',
        severity: 'wrong',
        seen: `The schema ${patient.schema} is at version ${state.version}, and this version of Holdfast needs ${known}: ${counted(state.pending.length, 'migration')} not applied`,
        why: 'An instance of this version that opens with migrate: false is refused.',
        facts: { version: state.version, needed: known },
        mend: { what: 'Apply them. Running instances go on.', commands: [migrateCommand(patient)], fixable: true },
      }),
    ]
  },
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
