import { checkName, formatDuration, hashedKey, UsageError } from '../base/index.js'
import type { ObservedLease, ObservedLock, Participant } from '../observe/index.js'
import type { Settings } from './settings.js'

/** What people recognise a participant by: its machine and process, or what the session calls itself. */
export function whoIs(
  it: Pick<ObservedLock, 'instance' | 'host' | 'osPid' | 'application' | 'user'>,
  pid?: number | null,
) {
  if (it.instance !== null) return it.host === null ? `instance ${it.instance}` : `${it.host} process ${it.osPid}`
  const session = pid ? ` session ${pid}` : ''
  return `${it.application ?? it.user ?? 'somebody'}${session}`
}

export function whoTakesPart(participant: Participant): string {
  const { kind, job, pids } = participant
  if (kind === 'nobody') return 'nobody'
  return job ? `job ${job.id} (${job.kind})` : whoIs(participant, pids[0])
}

/** The name, or the bare key where nobody registered one. */
export function called({ label, key }: { label: string | null; key: string }): string {
  return label ?? `key ${key}`
}

export function forHowLong({ forMs, granted }: Pick<ObservedLock, 'forMs' | 'granted'>): string {
  if (forMs !== null) return formatDuration(forMs)
  // Notes come after three seconds: before that, a hold of ours is simply young.
  return granted ? '' : '0ms'
}

/** Who has a name by lease; nobody, where only its hold is left. */
export function whoLeases({ instance, host, osPid }: ObservedLease): string {
  return whoIs({ instance, host, osPid, application: null, user: null })
}

/** What NAME means on the command line. */
export interface Target {
  readonly key: string
  readonly label: string
  readonly namespace: string | null
}

/** A name of the namespace, or with --key the number itself, for pairs, numbered keys and other people's locks. */
export function targetOf(settings: Settings, name: string): Target {
  if (!settings.flag('key')) {
    return hashedKey(settings.text('namespace') ?? 'default', checkName(name))
  }
  if (!/^-?\d{1,19}$/.test(name) || BigInt.asIntN(64, BigInt(name)) !== BigInt(name)) {
    throw new UsageError(`Expected a key of 64 bits in decimal, got ${JSON.stringify(name)}`)
  }
  return { key: BigInt(name).toString(), label: `key ${name}`, namespace: null }
}
