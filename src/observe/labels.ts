import type { ObservedLock } from './locks.js'

/** Returns the host and process of an instance, or the application name of a session outside Holdfast. */
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

/** Returns the name, or the key if no name is registered for the key. */
export function nameLabel({ label, key }: { label: string | null; key: string }): string {
  return label ?? `key ${key}`
}
