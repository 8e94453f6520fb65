import { type CommandScope, checkName, commandLine, formatDuration, hashedKey, UsageError } from '../base/index.js'
import { type FleetInstance, type ObservedLock, type Participant, participantLabel } from '../observe/index.js'
import type { Settings } from './settings.js'

export function graphParticipantLabel(participant: Participant): string {
  const { kind, job, pids } = participant
  if (kind === 'nobody') return 'nobody'
  return job ? `job ${job.id} (${job.kind})` : participantLabel(participant, pids[0])
}

export type InstanceState = 'alive' | 'drain-requested' | 'draining' | 'drained' | 'gone'

/** How an instance is, in a word: first whether it lives. */
export function stateOf({ alive, state }: Pick<FleetInstance, 'alive' | 'state'>): InstanceState {
  if (!alive) return 'gone'
  return state === 'open' ? 'alive' : state
}

export function durationLabel({ forMs, granted }: Pick<ObservedLock, 'forMs' | 'granted'>): string {
  if (forMs !== null) return formatDuration(forMs)
  // Notes come after three seconds: before that, a hold of ours is simply young.
  return granted ? '' : '0ms'
}

/** What NAME means on the command line. */
interface Target {
  readonly key: string
  readonly label: string
  readonly namespace: string | null
}

/** A name of the namespace, or with --key the number itself, for pairs, numbered keys and other people's locks. */
export function readTarget(settings: Settings, name: string): Target {
  if (!settings.flag('key')) {
    return hashedKey(settings.name('namespace') ?? 'default', checkName(name))
  }
  if (!/^-?\d{1,19}$/.test(name) || BigInt.asIntN(64, BigInt(name)) !== BigInt(name)) {
    throw new UsageError(`Expected a key of 64 bits in decimal, got ${JSON.stringify(name)}`)
  }
  return { key: BigInt(name).toString(), label: `key ${name}`, namespace: null }
}

/** A name as it was found: an unregistered one has no label. */
interface ObservedName {
  readonly key: string
  readonly label: string | null
  readonly namespace: string | null
}

/** A command about a name that somebody was shown, to be copied: what NAME, or with --key its number, means it again. */
export function commandForName(
  command: string,
  { key, label, namespace }: ObservedName,
  schema: string | undefined,
): string {
  const isTypable = label !== null && namespace !== '' && !label.includes('#') && !/\p{Cc}/u.test(label)
  return isTypable
    ? commandLine(command, commandOptions(namespace, schema), label)
    : // Pairs and numbered keys have a label, and no name that could be given; what moves a cursor is better not typed.
      commandLine(`${command} --key`, { schema }, key)
}

/** The namespace where that is not the one that every command looks in. */
export function commandOptions(namespace: string | null, schema: string | undefined): CommandScope {
  return { namespace: namespace === 'default' ? null : namespace, schema }
}
