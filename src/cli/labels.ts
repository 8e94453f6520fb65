import { type CommandScope, checkName, commandLine, formatDuration, hashedKey, UsageError } from '../base/index.js'
import { type FleetInstance, type ObservedLock, type Participant, participantLabel } from '../observe/index.js'
import type { Settings } from './settings.js'

export function graphParticipantLabel(participant: Participant): string {
  const { kind, job, pids } = participant
  if (kind === 'no-holder') return 'no holder'
  return job ? `job ${job.id} (${job.kind})` : participantLabel(participant, pids[0])
}

export type InstanceState = 'alive' | 'drain-requested' | 'draining' | 'drained' | 'lost'

export function stateOf({ alive, state }: Pick<FleetInstance, 'alive' | 'state'>): InstanceState {
  if (!alive) return 'lost'
  return state === 'open' ? 'alive' : state
}

export function durationLabel({ forMs, granted }: Pick<ObservedLock, 'forMs' | 'granted'>): string {
  if (forMs !== null) return formatDuration(forMs)
  // An instance records a hold's start time after three seconds. If no start time is recorded, the hold is less
  // than three seconds old.
  return granted ? '' : '0ms'
}

export interface Target {
  readonly key: string
  readonly label: string
  readonly namespace: string | null
}

/** Reads the argument NAME. With `--key`, NAME is the number of a pair, a numbered key or another program's lock. */
export function readTarget(settings: Settings, name: string): Target {
  if (!settings.flag('key')) {
    return hashedKey(settings.namespace, checkName(name))
  }
  if (!/^-?\d{1,19}$/.test(name) || BigInt.asIntN(64, BigInt(name)) !== BigInt(name)) {
    throw new UsageError(`Expected a 64-bit key in decimal, got ${JSON.stringify(name)}`)
  }
  return { key: BigInt(name).toString(), label: `key ${name}`, namespace: null }
}

/** A name as found in the database. A name that was never registered has no label. */
interface ObservedName {
  readonly key: string
  readonly label: string | null
  readonly namespace: string | null
}

/** Returns a command for a name that users can copy. Uses `--key` if the label cannot be typed. */
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

/** Returns the options that select a namespace and a schema. Omits the default namespace. */
export function commandOptions(namespace: string | null, schema: string | undefined): CommandScope {
  return { namespace: namespace === 'default' ? null : namespace, schema }
}
