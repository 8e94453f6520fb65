import { commandLine } from '../../base/index.js'
import { type ContendedName, type Holding, type Participant, type Remedy, remediesFor } from '../../observe/index.js'
import { commandForName, commandOptions } from '../labels.js'

/**
 * Returns commands that unblock a name's waiters, starting with the least disruptive. Returns none if the only remedy
 * is to wait.
 */
export function remedyCommands(
  schema: string | undefined,
  name: ContendedName,
  holding: Holding | undefined,
  participant: Participant,
): string[] {
  return remediesFor(name, holding, participant).map((remedy) => commandOf(schema, name, remedy))
}

function commandOf(schema: string | undefined, name: ContendedName, remedy: Remedy): string {
  switch (remedy.action) {
    case 'release':
      return commandForName('lock release', name, schema)
    case 'break':
      return commandForName('lock break', name, schema)
    case 'expire':
      return commandForName('lease expire', name, schema)
    case 'reset':
      return commandLine('limit reset', commandOptions(remedy.namespace, schema), remedy.name)
    case 'cancel':
      return commandLine('job cancel', { schema }, String(remedy.job))
    case 'retry':
      return commandLine('job retry', { schema }, String(remedy.job))
    case 'inspect':
      return commandLine('job show', { schema }, String(remedy.job))
  }
}
