import { checkName, formatDuration, hashedKey, UsageError } from '../base/index.js'
import { type ObservedLease, type ObservedLock, type Participant, whoIs } from '../observe/index.js'
import type { Settings } from './settings.js'

export function whoTakesPart(participant: Participant): string {
  const { kind, job, pids } = participant
  if (kind === 'nobody') return 'nobody'
  return job ? `job ${job.id} (${job.kind})` : whoIs(participant, pids[0])
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
