import type { ObservedLock } from './locks.js'

/** What people recognise a participant by: its machine and process, or what the session calls itself. */
export function whoIs(
  it: Pick<ObservedLock, 'instance' | 'host' | 'osPid'> & Partial<Pick<ObservedLock, 'application' | 'user'>>,
  pid?: number | null,
) {
  if (it.instance !== null) return it.host === null ? `instance ${it.instance}` : `${it.host} process ${it.osPid}`
  const session = pid ? ` session ${pid}` : ''
  return `${it.application ?? it.user ?? 'somebody'}${session}`
}

/** The name, or the bare key where nobody registered one. */
export function called({ label, key }: { label: string | null; key: string }): string {
  return label ?? `key ${key}`
}
