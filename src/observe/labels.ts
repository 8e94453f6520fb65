import type { ObservedLock } from './locks.js'

/** What people recognise a participant by: its machine and process, or what the session calls itself. */
export function participantLabel(
  participant: Pick<ObservedLock, 'instance' | 'host' | 'osPid'> & Partial<Pick<ObservedLock, 'application' | 'user'>>,
  pid?: number | null,
) {
  if (participant.instance !== null)
    return participant.host === null
      ? `instance ${participant.instance}`
      : `${participant.host} process ${participant.osPid}`
  const session = pid ? ` session ${pid}` : ''
  return `${participant.application ?? participant.user ?? 'somebody'}${session}`
}

/** The name, or the bare key where nobody registered one. */
export function nameLabel({ label, key }: { label: string | null; key: string }): string {
  return label ?? `key ${key}`
}
