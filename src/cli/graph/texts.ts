import { formatDuration } from '../../base/index.js'
import type { ContendedName, CycleSide, Holding, Participant, Wait, WaitGraph } from '../../observe/index.js'
import { visible } from '../output.js'
import { whoTakesPart } from '../who.js'

/** `lock invoice:42`, `limit gpu (8 of 8)`, `lane london of queue mail (1 of 1)`, `job 12 (send-email)`. */
export function whatIs({ kind, key, label, queue, max, inUse }: ContendedName): string {
  const places = max === null ? '' : ` (${inUse} of ${max})`
  if (kind === 'job') return visible(`job ${key} (${label})`)
  if (kind === 'election') return visible(`election ${label!.slice('election/'.length)}`)
  const of = kind === 'lane' && queue !== null ? ` of queue ${queue}` : ''
  return visible(`${kind} ${label ?? `key ${key}`}${of}${places}`)
}

export function whoIsIt(participant: Participant): string {
  const { job } = participant
  const state = job && job.state !== 'waiting' ? `, ${job.state}` : ''
  return visible(`${whoTakesPart(participant)}${state}`)
}

/** How a participant has a name. */
export function howHeld(holding: Holding | undefined): string {
  if (!holding) return 'stands first in its queue'
  const { how, mode, forMs, freeInMs, job, weight } = holding
  const since = forMs === null ? '' : ` for ${formatDuration(forMs)}`
  const soon = formatDuration(freeInMs ?? 0)
  switch (how) {
    case 'lock':
      return `held${mode === 'shared' ? ' shared' : ''}${since}`
    case 'lease':
      return `leased${since}`
    case 'kept':
      return `given back, kept for ${soon} more`
    case 'rate':
      return `its rate lets the next in after ${soon}, and only time helps`
    case 'permit':
      return `${weight === 1 ? 'a permit' : `permits for ${weight}`}${since}`
    case 'place':
      return `job ${job} has a place${since}`
    case 'job':
      return `running${since}`
  }
}

export function howItWaits(wait: Wait, byId: ReadonlyMap<string, Participant>): string {
  const { mode, forMs, requests, weight, behind } = wait
  const since = forMs === null ? '' : ` for ${formatDuration(forMs)}`
  const facts = [
    ...(mode === 'shared' ? ['shared'] : []),
    ...(requests > 1 ? [`${requests} calls`] : []),
    ...(weight > 1 ? [`weight ${weight}`] : []),
  ]
  const after = behind === null ? '' : `, behind ${visible(whoTakesPart(byId.get(behind)!))}`
  return `waits${since}${facts.length > 0 ? ` (${facts.join(', ')})` : ''}${after}`
}

/** One side of a circle: what it has, and what it waits for. */
export function sideOf(
  { participants, names }: WaitGraph,
  { participant, holds, waitsFor, forMs }: CycleSide,
): readonly [has: string, waits: string] {
  const who = participants.find(({ id }) => id === participant)!
  const [has, wants] = [holds, waitsFor].map((id) => whatIs(names.find((name) => name.id === id)!))
  const since = forMs === null ? '' : ` for ${formatDuration(forMs)}`
  return [`${whoIsIt(who)} has ${has}`, ` and waits for ${wants}${since}`]
}
