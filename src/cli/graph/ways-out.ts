import { commandFor } from '../../base/index.js'
import { type ContendedName, type Holding, type Participant, type WayOut, waysOutOf } from '../../observe/index.js'
import type { Settings } from '../settings.js'
import { commandAbout, elsewhere } from '../who.js'

/** The commands that make room for those who wait for a name, the mildest first; none where only time, or a worker, helps. */
export function waysOut(
  settings: Settings,
  name: ContendedName,
  holding: Holding | undefined,
  participant: Participant,
): string[] {
  return waysOutOf(name, holding, participant).map((way) => commandOf(settings.text('schema'), name, way))
}

function commandOf(schema: string | undefined, name: ContendedName, way: WayOut): string {
  switch (way.does) {
    case 'ask':
      return commandAbout('lock release', name, schema)
    case 'break':
      return commandAbout('lock break', name, schema)
    case 'expire':
      return commandAbout('lease expire', name, schema)
    case 'reset':
      return commandFor('limit reset', elsewhere(way.namespace, schema), way.name)
    case 'cancel':
      return commandFor('job cancel', { schema }, String(way.job))
    case 'retry':
      return commandFor('job retry', { schema }, String(way.job))
    case 'look':
      return commandFor('job show', { schema }, String(way.job))
  }
}
