import { checkName, checkNameFits, hashedKey } from '../base/index.js'

/** The name that an election's leader holds. */
export function electionName(name: string): string {
  return `election/${name}`
}

/** The key of that name, by which notifications speak of an election. */
export function electionKey(namespace: string, name: string): string {
  return hashedKey(namespace, electionName(name)).key
}

/** Refuses what cannot be the name of an election. */
export function checkElectionName(given: unknown): void {
  checkNameFits(electionName(checkName(given, 'the election')), 'the election, with what stands before it,')
}
