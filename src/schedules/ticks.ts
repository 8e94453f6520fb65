import type { TickRule } from '../cron/index.js'

/** Range of consecutive ticks. */
interface Piece {
  readonly first_at: Date
  readonly last_at: Date
  readonly n: number
}

/** Arguments of `schedule_settle`. */
interface Settlement {
  readonly older: Piece[] | undefined
  readonly ticks: Date[]
  /** Whether the rule has no more ticks after the listed ticks. */
  readonly is_over: boolean
}

/** Number of future ticks in a settlement plan. The database needs at least one tick that is not due yet. */
const ahead = 5
/** Tolerance for a database clock that has been set back since its time was read. */
const marginMs = 1_000

/**
 * Returns a rule's ticks, from the tick `nextMs` to a few ticks after `nowMs`. The last `keep` due ticks and the future
 * ticks are listed individually. Earlier ticks are returned as at most two ranges, split at `dividedAtMs`.
 */
export function planSettlement(
  rule: TickRule,
  nextMs: number,
  nowMs: number,
  keep: number,
  dividedAtMs: number | undefined,
): Settlement {
  const due = rule.between(new Date(nextMs - 1), new Date(nowMs), keep)
  const listed = due.length > 0 ? due : [new Date(nextMs)]
  const first = listed[0]!.getTime()
  const pieces: Piece[] = []
  if (first > nextMs) {
    const divides = dividedAtMs !== undefined && dividedAtMs > nextMs && dividedAtMs < first
    const end = divides ? dividedAtMs : first
    // Always counts nextMs as a tick, because another instance with different time zone data may have computed it.
    const n = 1 + rule.count(new Date(nextMs), new Date(end - 1))
    const last = n > 1 ? rule.previous(new Date(end))! : new Date(nextMs)
    pieces.push({ first_at: new Date(nextMs), last_at: last, n })
    const rest = divides ? rule.count(new Date(end - 1), new Date(first - 1)) : 0
    if (rest > 0) {
      pieces.push({ first_at: rule.next(new Date(end - 1))!, last_at: rule.previous(new Date(first))!, n: rest })
    }
  }
  const { ticks, isOver } = following(rule, listed)
  return { older: pieces.length > 0 ? pieces : undefined, ticks, is_over: isOver }
}

/** Returns candidates for a rule's first tick after now. The database chooses one candidate by its own clock. */
export function firstTicks(rule: TickRule, nowMs: number): { ticks: Date[]; isOver: boolean } {
  const first = rule.next(new Date(nowMs - marginMs))
  return first === null ? { ticks: [], isOver: true } : following(rule, [first])
}

function following(rule: TickRule, ticks: Date[]): { ticks: Date[]; isOver: boolean } {
  const all = [...ticks]
  for (let n = 0; n < ahead; n++) {
    const next = rule.next(all.at(-1)!)
    if (next === null) return { ticks: all, isOver: true }
    all.push(next)
  }
  return { ticks: all, isOver: false }
}
