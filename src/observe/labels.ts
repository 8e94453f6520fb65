import { nameWithProcess } from '../postgres/index.js'
import type { ObservedLock } from './locks.js'

/** ID and name of an instance, as in the rows of an observer. */
export type InstanceReference = Pick<ObservedLock, 'instance' | 'instanceName'>

interface InstanceOwner extends Pick<ObservedLock, 'instanceName' | 'host' | 'osPid'> {
  readonly instance: string
}

/** Returns the name of an instance, or a text with its ID if the name is no longer known. */
export function instanceLabel({ instance, instanceName }: InstanceReference & { readonly instance: string }): string {
  return instanceName ?? `instance ${instance}`
}

/** Returns the name of an instance, or the application name of a session outside Holdfast. */
export function participantLabel(
  participant: InstanceReference & Partial<Pick<ObservedLock, 'application' | 'user'>>,
  pid?: number | null,
) {
  const { instance, instanceName } = participant
  if (instance !== null) return instanceLabel({ instance, instanceName })
  const session = pid ? ` session ${pid}` : ''
  return `${participant.application ?? participant.user ?? 'unknown'}${session}`
}

/**
 * Returns the name, the process and the ID of an instance. Omits the process if the name contains it, which is the case
 * for the default name.
 */
export function instanceDetails(one: InstanceOwner): string {
  const { instance, instanceName, host, osPid } = one
  if (instanceName === null) return `instance ${instance}`
  return `${nameWithProcess(instanceName, host, osPid)}, instance ${instance}`
}

/** Returns the name, or the key if no name is registered for the key. */
export function nameLabel({ label, key }: { label: string | null; key: string }): string {
  return label ?? `key ${key}`
}
