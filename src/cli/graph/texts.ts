import { formatDuration } from '../../base/index.js'
import type { ContendedName, CycleSide, Holding, Participant, Wait, WaitGraph } from '../../observe/index.js'
import { graphParticipantLabel } from '../labels.js'
import { visible } from '../output.js'

/** Describes a name, such as `lock invoice:42`, `limit gpu (8 of 8)` or `lane london of queue mail (1 of 1)`. */
export function nameText({ kind, key, label, queue, max, inUse }: ContendedName): string {
  const places = max === null ? '' : ` (${inUse} of ${max})`
  if (kind === 'job') return visible(`job ${key} (${label})`)
  if (kind === 'election') return visible(`election ${label!.slice('election/'.length)}`)
  const queueText = kind === 'lane' && queue !== null ? ` of queue ${queue}` : ''
  return visible(`${kind} ${label ?? `key ${key}`}${queueText}${places}`)
}

export function participantText(participant: Participant): string {
  const { job } = participant
  const state = job && job.state !== 'waiting' ? `, ${job.state}` : ''
  return visible(`${graphParticipantLabel(participant)}${state}`)
}

export function holdingText(holding: Holding | undefined): string {
  if (!holding) return 'first in its queue'
  const { how, mode, forMs, freeInMs, job, weight } = holding
  const since = forMs === null ? '' : ` for ${formatDuration(forMs)}`
  const leftText = formatDuration(freeInMs ?? 0)
  switch (how) {
    case 'lock':
      return `held${mode === 'shared' ? ' shared' : ''}${since}`
    case 'lease':
      return `leased${since}`
    case 'min-hold':
      return `released, but blocked by its minimum hold for another ${leftText}`
    case 'rate':
      return `the rate allows the next call in ${leftText}`
    case 'permit':
      return `${weight === 1 ? 'a permit' : `permits for ${weight}`}${since}`
    case 'place':
      return `job ${job} has a slot${since}`
    case 'job':
      return `running${since}`
  }
}

export function waitText(wait: Wait, byId: ReadonlyMap<string, Participant>): string {
  const { mode, forMs, requests, weight, behind } = wait
  const since = forMs === null ? '' : ` for ${formatDuration(forMs)}`
  const facts = [
    ...(mode === 'shared' ? ['shared'] : []),
    ...(requests > 1 ? [`${requests} calls`] : []),
    ...(weight > 1 ? [`weight ${weight}`] : []),
  ]
  const after = behind === null ? '' : `, behind ${visible(graphParticipantLabel(byId.get(behind)!))}`
  return `waits${since}${facts.length > 0 ? ` (${facts.join(', ')})` : ''}${after}`
}

/** Describes one of a cycle's participants with the name that the participant holds and the name that it waits for. */
export function cycleSideText(
  { participants, names }: WaitGraph,
  { participant, holds, waitsFor, forMs }: CycleSide,
): readonly [has: string, waits: string] {
  const who = participants.find(({ id }) => id === participant)!
  const [has, wants] = [holds, waitsFor].map((id) => nameText(names.find((name) => name.id === id)!))
  const since = forMs === null ? '' : ` for ${formatDuration(forMs)}`
  return [`${participantText(who)} has ${has}`, ` and waits for ${wants}${since}`]
}
