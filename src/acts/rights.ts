import { describe, listOf, suggest, UsageError } from '../base/index.js'
import { type ActName, acts } from './acts.js'

/** Rights of a person or a program: `read` permits no acts, `all` permits all acts, and a list permits the listed acts. */
export type Rights = 'all' | 'read' | readonly ActName[]

export const actNames = Object.keys(acts) as ActName[]

/** Returns the acts that the rights permit. Throws for invalid rights, so that a mistake never grants a right. */
export function readRights(rights: unknown): readonly ActName[] {
  if (rights === 'all') return actNames
  if (rights === 'read') return []
  const list = listOf(rights)
  if (!list) {
    throw new UsageError(`Expected rights to be "all", "read" or an array of action names, got ${describe(rights)}`)
  }
  return list.map(readActName)
}

/** Returns the act with this name. Throws if there is no such act. */
export function readActName(name: unknown): ActName {
  const found = actNames.find((known) => known === name)
  if (found !== undefined) return found
  const meant = suggest(String(name), actNames)
  throw new UsageError(`There is no action ${describe(name)}`, meant && `Did you mean "${meant}"?`)
}
