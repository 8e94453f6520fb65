import type { TickRule } from '../cron/index.js'
import type { Definition } from './definition.js'
import type { ScheduleState } from './store.js'

/**
 * Order in which members claim a tick. All members compute the same order from the schedule's key, the tick and their
 * places among the members. So one member claims the tick, the next two check shortly afterwards that the tick has been
 * settled, and the other members send nothing. The order changes from tick to tick, which distributes the runs.
 *
 * The order is only a hint. The database decides who runs a tick. If members know different numbers of members, several members may claim
 * the tick, or the tick waits for the next member.
 */

/** Number of members that claim a tick. All other members rely on them until a look shows that the tick is overdue. */
const claimers = 3
/** Time after which every member that detects an overdue tick claims the tick. */
const overdueMs = 500
/**
 * Time that a member plans ahead. The member reads the states of schedules that tick within this time, and plans its
 * claims of these ticks.
 */
export const horizonMs = 15_000
/** Maximum time between the claims of two members. */
const maxApartMs = 100

/**
 * Plans the claim of the next tick for which the instance is one of the claimers. Returns undefined if there is no such tick within the
 * horizon. With `sticky`, the instance that ran the last tick is the first claimer.
 */
export function planClaim(
  state: ScheduleState,
  rule: TickRule,
  { sticky, spreadMs }: Pick<Definition, 'sticky' | 'spreadMs'>,
  instance: string,
): { readonly tickMs: number; readonly inMs: number } | undefined {
  const [, , nextMs, dueMs, lastInstance] = state
  if (nextMs === null || dueMs === null) return undefined
  const preferred = sticky ? lastInstance : null
  for (let tickMs = nextMs; tickMs <= nextMs + horizonMs; ) {
    const following = rule.next(new Date(tickMs))?.getTime() ?? Infinity
    const rank = preferred === instance ? 0 : claimRank(state, tickMs) + (preferred === null ? 0 : 1)
    // The first tick may be overdue, because the members that should have claimed it have died.
    if (rank < claimers || (tickMs === nextMs && dueMs < -overdueMs)) {
      const spread = preferred === instance ? 0 : Math.min(spreadMs, (following - tickMs) / 4)
      return { tickMs, inMs: dueMs + (tickMs - nextMs) + claimDelay(rank, spread, following - tickMs) }
    }
    tickMs = following
  }
  return undefined
}

/** Whether the instance is one of the members that poll often while the schedule has an active run. */
export function isWatcher(state: ScheduleState): boolean {
  return claimRank(state, 0) < claimers
}

/** Returns the instance's position in the order, starting at 0. */
function claimRank([key, , , , , , , place, members]: ScheduleState, tickMs: number): number {
  if (members <= 1) return 0
  const first = hash(`${key} ${tickMs}`) % members
  return (place - first + members) % members
}

/** Returns how long a member waits after the tick is due. */
function claimDelay(rank: number, spreadMs: number, periodMs: number): number {
  if (rank === 0 || rank >= claimers) return Math.random() * spreadMs
  const apartMs = Math.min(maxApartMs, periodMs / 10)
  return spreadMs + apartMs * (1.5 * rank - 0.5 + Math.random() / 2)
}

/** FNV-1a, with a final step that spreads similar texts over all values. */
function hash(text: string): number {
  let value = 0x811c9dc5
  for (let at = 0; at < text.length; at++) value = Math.imul(value ^ text.charCodeAt(at), 0x01000193)
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b)
  return (value ^ (value >>> 13)) >>> 0
}
