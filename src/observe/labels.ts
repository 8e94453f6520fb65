import type { ObservedLock } from './locks.js'

/** Returns an instance's host and process, or, for a session of a different program, its application name. */
export function participantLabel(
  participant: Pick<ObservedLock, 'instance' | 'host' | 'osPid'> & Partial<Pick<ObservedLock, 'application' | 'user'>>,
  pid?: number | null,
) {
  if (participant.instance !== null)
    return participant.host === null
      ? `instance ${participant.instance}`
      : `${participant.host} process ${participant.osPid}`
  const session = pid ? ` session ${pid}` : ''
  return `${participant.application ?? participant.user ?? 'unknown'}${session}`
}

/** Returns the name, or the key if no name is registered. */
export function nameLabel({ label, key }: { label: string | null; key: string }): string {
  return label ?? `key ${key}`
}
