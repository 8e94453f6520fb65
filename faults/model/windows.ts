// The windows of claims: job_next_window and job_read_window of src/jobs/functions.sql for one queue with one priority.

/** `pg_snapshot`: the transactions below `xmax` that are not in `inProgress` have ended. */
export interface Snapshot {
  xmax: number
  inProgress: readonly number[]
}

/** A row of `job`. A row of a transaction that was rolled back does not exist. */
export interface Entry {
  job: number
  entry: number
  xid: number
  era: number
  isCommitted: boolean
  crashes: number
  hasLane: boolean
}

/** A row of `frontier`. */
export interface Frontier {
  number: number
  era: number
  base: Snapshot
  upto: Snapshot
  atXid: number
  atEntry: number
  isRead: boolean
}

const nothing: Snapshot = { xmax: 1, inProgress: [] }
const everything: Snapshot = { xmax: 1_000_000, inProgress: [] }

export const noFrontier: Frontier = {
  number: 0,
  era: 0,
  base: nothing,
  upto: nothing,
  atXid: 0,
  atEntry: 0,
  isRead: true,
}

/** `pg_visible_in_snapshot` */
function isVisible(xid: number, snapshot: Snapshot) {
  return xid < snapshot.xmax && !snapshot.inProgress.includes(xid)
}

/** `job_next_window` */
export function nextWindow(f: Frontier, era: number, current: Snapshot): Frontier {
  const window = { ...f, atXid: 0, atEntry: 0, isRead: false }
  if (f.era === era) return { ...window, base: f.upto, upto: current }
  if (f.upto.xmax < everything.xmax) return { ...window, base: f.upto, upto: everything }
  return { ...window, era: f.era + 1, base: nothing, upto: f.era + 1 === era ? current : everything }
}

export interface WindowBugs {
  /** Does not look for the transactions that were in progress at the base of the window. */
  readonly skipsLate: boolean
  /** Reads all committed entries, even if they were committed after the window was opened. */
  readonly readsBeyond: boolean
}

/** `job_read_window`: the frontier after at most `max` entries, and these entries. */
export function readWindow(f: Frontier, all: readonly Entry[], max: number, { skipsLate, readsBeyond }: WindowBugs) {
  const known = all.filter(
    ({ era, xid, isCommitted }) => isCommitted && era === f.era && (readsBeyond || isVisible(xid, f.upto)),
  )
  const isBehind = (one: Entry, xid: number, entry: number) => one.xid > xid || (one.xid === xid && one.entry > entry)
  // First the transactions that were in progress at base, one by one. Then all later transactions as one range.
  const late = known
    .filter((one) => f.base.inProgress.includes(one.xid) && isBehind(one, f.atXid, f.atEntry))
    .map(({ xid }) => xid)
  const lateXid = late.length > 0 && !skipsLate ? Math.min(...late) : undefined
  const fromXid = lateXid ?? Math.max(f.atXid, f.base.xmax)
  const endXid = lateXid === undefined ? (readsBeyond ? everything : f.upto).xmax : lateXid + 1
  const found = known
    .filter((one) => isBehind(one, fromXid, fromXid === f.atXid ? f.atEntry : 0) && one.xid < endXid)
    .sort((a, b) => a.xid - b.xid || a.entry - b.entry)
    .slice(0, max + 1)
  const taken = found.slice(0, max)
  const last = taken.at(-1)
  const frontier: Frontier = {
    ...f,
    atXid: last?.xid ?? f.atXid,
    atEntry: last?.entry ?? f.atEntry,
    isRead: found.length <= max && lateXid === undefined,
  }
  return { frontier, taken }
}
