import { type CommandScope, checkName, commandLine, formatDuration, hashedKey, UsageError } from '../base/index.js'
import { type FleetInstance, type ObservedLock, type Participant, participantLabel } from '../observe/index.js'
import type { Settings } from './settings.js'

export function graphParticipantLabel(participant: Participant): string {
  const { kind, job, pids } = participant
  if (kind === 'nobody') return 'nobody'
  return job ? `job ${job.id} (${job.kind})` : participantLabel(participant, pids[0])
}

export type InstanceState = 'alive' | 'drain-requested' | 'draining' | 'drained' | 'gone'

export function stateOf({ alive, state }: Pick<FleetInstance, 'alive' | 'state'>): InstanceState {
  if (!alive) return 'gone'
  return state === 'open' ? 'alive' : state
}

export function durationLabel({ forMs, granted }: Pick<ObservedLock, 'forMs' | 'granted'>): string {
  if (forMs !== null) return formatDuration(forMs)
  // An instance records the start time of a hold after three seconds. A hold without a recorded start time is younger.
  return granted ? '' : '0ms'
}

interface Target {
  readonly key: string
  readonly label: string
  readonly namespace: string | null
}

/** Reads the argument NAME. With --key it is a number, for pairs, numbered keys and locks of other programs. */
export function readTarget(settings: Settings, name: string): Target {
  if (!settings.flag('key')) {
    return hashedKey(settings.name('namespace') ?? 'default', checkName(name))
  }
  if (!/^-?\d{1,19}$/.test(name) || BigInt.asIntN(64, BigInt(name)) !== BigInt(name)) {
    throw new UsageError(`Expected a key of 64 bits in decimal, got ${JSON.stringify(name)}`)
  }
  return { key: BigInt(name).toString(), label: `key ${name}`, namespace: null }
}

/** A name in the database. An unregistered name has no label. */
interface ObservedName {
  readonly key: string
  readonly label: string | null
  readonly namespace: string | null
}

/** Creates a command for a name, ready to copy. Uses --key if the label cannot be typed. */
export function commandForName(
  command: string,
  { key, label, namespace }: ObservedName,
  schema: string | undefined,
): string {
  const isTypable = label !== null && namespace !== '' && !label.includes('#') && !/\p{Cc}/u.test(label)
  return isTypable
    ? commandLine(command, commandOptions(namespace, schema), label)
    : // The label of a pair or a numbered key is not a name. Control characters cannot be typed safely.
      commandLine(`${command} --key`, { schema }, key)
}

/** Options that select a namespace and a schema. Omits the default namespace. */
export function commandOptions(namespace: string | null, schema: string | undefined): CommandScope {
  return { namespace: namespace === 'default' ? null : namespace, schema }
}
