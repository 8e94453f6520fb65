// How what the graph of waits tells is said.
import { formatDuration } from '../../format.js'
import type { Says } from '../../wire.js'

export type Waits = Says<'graph'>
export type DrawnName = Waits['names'][number]
export type Holding = DrawnName['holders'][number]
export type Participant = Waits['participants'][number]
export type WayOut = Holding['ways'][number]

/** `lock invoice:42`, `limit gpu (8 of 8)`, `job 12 (send-email)`. */
export function whatIs({ kind, key, label, queue, max, inUse }: DrawnName): string {
  if (kind === 'job') return `job ${key} (${label})`
  const of = kind === 'lane' && queue !== null ? ` of queue ${queue}` : ''
  const places = max === null ? '' : ` (${inUse} of ${max})`
  return `${kind} ${label ?? `key ${key}`}${of}${places}`
}

/** `web-3/4711`: as everywhere on the pages. */
export function whoIs({ kind, instance, host, osPid, application, user, pids, job }: Participant): string {
  if (kind === 'nobody') return 'nobody'
  if (job) return `job ${job.id} (${job.kind})`
  if (instance !== null) return host === null ? instance : `${host}/${osPid}`
  return `${application || user || 'a session'}, pid ${pids.join(', ')}`
}

/** How somebody has a name, in one word or two. */
export function howHeld({ how, mode, weight, freeInMs }: Holding): string {
  const soon = formatDuration(freeInMs ?? 0)
  switch (how) {
    case 'lock':
      return mode === 'shared' ? 'held shared' : 'held'
    case 'lease':
      return 'leased'
    case 'kept':
      return `kept for ${soon} more,`
    case 'rate':
      return `rate rests ${soon}`
    case 'permit':
      return weight === 1 ? 'permit' : `${weight} permits`
    case 'place':
      return 'place'
    case 'job':
      return 'job'
  }
}
