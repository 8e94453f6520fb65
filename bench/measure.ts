// Measures contestants in alternating rounds, so that other load on the machine affects all of them equally. Figures are medians of the
// rounds. A ratio is the median of the per-round ratios.

/** Command-line options of `npm run bench`. */
export interface Options {
  rounds: number
  roundMs: number
  delayed: number
  /** Length of the `analytics` suite. */
  minutes: number
  /** Number of killed workers per scenario of the suite `takeover`. */
  kills: number
  /** The suite `jobs` runs only the parts whose names contain this text. */
  part: string
  progress: Progress
  /** Prints a finished table of a suite that takes so long that a later failure should not lose it. */
  print: Progress
}

export type Progress = (text: string) => void

export interface Contestant {
  name: string
  /** Works for about `ms` milliseconds. Returns the number of calls and their durations. */
  run(ms: number): Promise<Outcome>
}

export interface Outcome {
  perSecond: number
  /** Duration of each call. */
  waitsMs: number[]
}

interface RoundOptions {
  rounds: number
  roundMs: number
  onRound?(round: number): void
}

export interface Summary {
  perSecond: number
  p50Ms?: number
  p99Ms?: number
  longestMs?: number
}

/**
 * Runs the contestants in alternating rounds, after one unmeasured run of each. Returns each contestant's outcomes, by
 * name.
 */
export async function runRounds(contestants: Contestant[], { rounds, roundMs, onRound }: RoundOptions) {
  // The first run compiles code, plans statements, opens connections and registers names.
  for (const one of contestants) await one.run(roundMs / 2)
  const outcomes: Record<string, Outcome[]> = Object.fromEntries(contestants.map(({ name }) => [name, []]))
  for (let round = 0; round < rounds; round++) {
    onRound?.(round)
    for (const one of contestants) outcomes[one.name]!.push(await one.run(roundMs))
  }
  return outcomes
}

/** Runs each contestant once per round. Returns each contestant's outcomes, by name. */
export async function alternate<Result>(
  names: string[],
  rounds: number,
  run: (name: string, round: number) => Promise<Result>,
) {
  const outcomes: Record<string, Result[]> = Object.fromEntries(names.map((name) => [name, []]))
  for (let round = 1; round <= rounds; round++) {
    for (const name of names) outcomes[name]!.push(await run(name, round))
  }
  return outcomes
}

/**
 * Runs `workers` concurrent loops for `ms` milliseconds. Each loop calls `once(worker)` again and again. Returns the
 * calls' durations.
 */
export async function loops(workers: number, ms: number, once: (worker: number) => unknown): Promise<Outcome> {
  const startedAt = performance.now()
  const until = startedAt + ms
  const waitsMs: number[] = []
  const loop = async (worker: number) => {
    for (let from = performance.now(); from < until; ) {
      await once(worker)
      const now = performance.now()
      waitsMs.push(now - from)
      from = now
    }
  }
  await Promise.all(Array.from({ length: workers }, (_, worker) => loop(worker)))
  return { perSecond: (waitsMs.length / (performance.now() - startedAt)) * 1_000, waitsMs }
}

export function median(values: number[]) {
  return percentile(values, 50)
}

export function percentile(values: number[], percent: number) {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * percent) / 100))]!
}

/** Summarizes one contestant's rounds. */
export function summary(outcomes: Outcome[] = []): Summary {
  const waits = outcomes.map(({ waitsMs }) => waitsMs).filter((waits) => waits.length > 0)
  return {
    perSecond: Math.round(median(outcomes.map(({ perSecond }) => perSecond))),
    ...(waits.length > 0 && {
      p50Ms: round3(median(waits.map((round) => percentile(round, 50)))),
      p99Ms: round3(median(waits.map((round) => percentile(round, 99)))),
      longestMs: round3(Math.max(...waits.map((round) => percentile(round, 100)))),
    }),
  }
}

/** Returns the rate of `ours` divided by the rate of `peer`. */
export function ratio(ours: Outcome[] = [], peer: Outcome[] = []) {
  return round3(median(ours.map(({ perSecond }, round) => perSecond / peer[round]!.perSecond)))
}

export function round3(value: number) {
  return Number(value.toPrecision(3))
}
