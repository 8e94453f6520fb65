import { loadStatements } from '../../src/postgres/index.js'
import type { Step } from './world.js'

type Room = 'jobs' | 'leases' | 'limits' | 'locks' | 'once' | 'schedules'

const rooms = new Map<Room, Record<string, { text: string }>>()

/** Returns the text of a statement of the package. */
export function textOf(room: Room, name: string): string {
  if (!rooms.has(room))
    rooms.set(room, loadStatements(new URL(`../../src/${room}/${room}.sql`, import.meta.url), 'holdfast'))
  const statement = rooms.get(room)![name]
  if (!statement) throw new Error(`There is no statement ${name} in src/${room}/${room}.sql`)
  return statement.text
}

/** Creates a step that runs a statement of the package, with values as the package sends them. */
export function step(room: Room, name: string, values: Step['values'] = [], as = name): Step {
  return { name: as, text: textOf(room, name), values }
}
