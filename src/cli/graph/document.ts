import type { WaitGraph } from '../../observe/index.js'
import type { GraphDocument } from '../documents.js'
import { remedyCommands } from './remedies.js'

export function graphDocument(
  { participants, names, cycles, roots, isPartial }: WaitGraph,
  schema: string | undefined,
): GraphDocument {
  return {
    participants,
    names,
    cycles,
    roots: roots.map(({ participant, blocked }) => ({
      participant: participant.id,
      blocks: blocked.map(({ name, holding }) => ({
        name: name.id,
        remedies: remedyCommands(schema, name, holding, participant),
      })),
    })),
    isPartial,
  }
}
