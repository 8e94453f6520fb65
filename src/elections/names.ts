import { checkName, checkNameFits, hashedKey } from '../base/index.js'

/** Returns the name of the lock or lease that an election's leader holds. */
export function electionName(name: string): string {
  return `election/${name}`
}

/** Returns the key of the name that an election's leader holds. Notifications about the election contain this key. */
export function electionKey(namespace: string, name: string): string {
  return hashedKey(namespace, electionName(name)).key
}

/** Throws if the value is not a valid election name. */
export function checkElectionName(given: unknown): void {
  checkNameFits(electionName(checkName(given, 'the election')), 'the election name, including its prefix,')
}
