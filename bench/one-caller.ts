// Measures one caller alone: its rate, its round trips and its time in the server, next to the same statements written by hand.
import { type Cost, costDatabase, costPerCall } from './cost.ts'
import { loops, type Options, ratio, runRounds, type Summary, summary } from './measure.ts'
import { type Cell, table } from './table.ts'

export interface Caller {
  once(): Promise<unknown>
  close(): Promise<unknown>
}

/** Opens a caller of each kind. The first kind is Holdfast. */
export type Callers = Record<string, (url: string) => Promise<Caller>>

interface Row extends Summary {
  name: string
  cost: Cost | undefined
  /** Rate of the first kind divided by this kind's rate. */
  ratio: number
}

export async function oneCaller(url: string, suite: string, callers: Callers, options: Options): Promise<Row[]> {
  const { rounds, roundMs, progress } = options
  progress(`${suite}: one caller, cost`)
  const costs = await costsOf(callers)
  const opened: Record<string, Caller> = {}
  // One after the other, because two kinds may create the same table.
  for (const [name, open] of Object.entries(callers)) opened[name] = await open(url)
  try {
    const contestants = Object.entries(opened).map(([name, { once }]) => ({
      name,
      run: (ms: number) => loops(1, ms, once),
    }))
    const outcomes = await runRounds(contestants, {
      rounds,
      roundMs,
      onRound: (round) => progress(`${suite}: one caller, round ${round + 1} of ${rounds}`),
    })
    const ours = outcomes[contestants[0]!.name]
    return Object.entries(outcomes).map(([name, all]) => ({
      name,
      ...summary(all),
      cost: costs[name],
      ratio: ratio(ours, all),
    }))
  } finally {
    await Promise.all(Object.values(opened).map((caller) => caller.close()))
  }
}

async function costsOf(callers: Callers): Promise<Record<string, Cost>> {
  const database = await costDatabase()
  if (!database) return {}
  try {
    const costs: Record<string, Cost> = {}
    for (const [name, open] of Object.entries(callers)) {
      const caller = await open(database.url)
      costs[name] = await costPerCall(database.url, caller.once)
      await caller.close()
    }
    return costs
  } finally {
    await database.close()
  }
}

export function showOneCaller(title: string, rows: Row[], goal: number) {
  const cells = rows.map(({ name, perSecond, p50Ms, p99Ms, cost, ratio }, at): Cell[] => [
    name,
    perSecond,
    p50Ms,
    p99Ms,
    cost?.roundTrips,
    cost?.serverMs,
    ...(at > 0 ? [ratio, `≥ ${goal}`] : []),
  ])
  const head = ['pairs/s', 'p50 ms', 'p99 ms', 'round trips', 'server ms', 'holdfast : this', 'goal']
  return table([title, ...head], cells)
}
