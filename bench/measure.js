// Measuring side by side: contestants take turns, round after round, so that whatever else the machine does meanwhile
// falls on all of them alike. Figures are medians of the rounds; a ratio is the median of the rounds' own ratios.

/**
 * @typedef {object} Contestant
 * @property {string} name
 * @property {(ms: number) => Promise<Outcome>} run  works for about so long and says what came of it
 *
 * @typedef {object} Outcome
 * @property {number} perSecond
 * @property {number[]} [waitsMs]  how long each one took
 */

/** Runs the contestants in turns; answers with all outcomes of each, by its name. */
export async function inTurns(contestants, { rounds, roundMs, onRound }) {
  // Warm: code compiled, plans made, connections open, names registered.
  for (const { run } of contestants) await run(roundMs / 2)
  const outcomes = Object.fromEntries(contestants.map(({ name }) => [name, []]))
  for (let round = 0; round < rounds; round++) {
    onRound?.(round)
    for (const { name, run } of contestants) outcomes[name].push(await run(roundMs))
  }
  return outcomes
}

/** `workers` loops side by side, each doing `once(worker)` again and again for `ms`; each `once` is timed. */
export async function loops(workers, ms, once) {
  const startedAt = performance.now()
  const until = startedAt + ms
  const waitsMs = []
  const loop = async (worker) => {
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

export function median(values) {
  return percentile(values, 50)
}

export function percentile(values, percent) {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * percent) / 100))]
}

/** The rounds of one contestant in a few numbers. */
export function summary(outcomes) {
  const waits = outcomes.map(({ waitsMs }) => waitsMs).filter((waits) => waits?.length)
  return {
    perSecond: Math.round(median(outcomes.map(({ perSecond }) => perSecond))),
    ...(waits.length > 0 && {
      p50Ms: round3(median(waits.map((round) => percentile(round, 50)))),
      p99Ms: round3(median(waits.map((round) => percentile(round, 99)))),
      longestMs: round3(Math.max(...waits.map((round) => percentile(round, 100)))),
    }),
  }
}

/** How many times the rate of `peer` the rate of `ours` is. */
export function ratio(ours, peer) {
  return round3(median(ours.map(({ perSecond }, round) => perSecond / peer[round].perSecond)))
}

function round3(value) {
  return Number(value.toPrecision(3))
}
