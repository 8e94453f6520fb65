import type { TickRule } from '../cron/index.js'

/** Ticks without a name for each: the first, the last, and how many. */
interface Piece {
  readonly first_at: Date
  readonly last_at: Date
  readonly n: number
}

/** What `schedule_settle` is told. */
interface Settlement {
  readonly older: Piece[] | undefined
  readonly ticks: Date[]
  /** No tick follows these. */
  readonly is_over: boolean
}

/** How many ticks beyond the present one are told, so that the database finds one that is not due. */
const ahead = 5
/** The database may have been set back a little since it told its time. */
const marginMs = 1_000

/**
 * The ticks of a rule from `nextMs`, which is one, to a few after `nowMs`: the last `keep` that are due and those after them
 * one by one, those before in two pieces at most, divided at `dividedAtMs`.
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
    // It is one even where the zones that are known here say otherwise: another computed it, who knew older ones.
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

/** Candidates for the first tick of a rule after now: the database chooses by its own clock. */
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
