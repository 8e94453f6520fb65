import { setTimeout as sleep } from 'node:timers/promises'
import { type Random, randomFrom } from '../property/random.ts'
import { fixedSeedOf } from '../property/seed.js'

export type Outcome = 'granted' | 'gave up'

/** Options of a wait that ends after about `ms`. */
const ends = {
  timeout: (ms: number) => ({ wait: ms }),
  abort: (ms: number) => {
    const abort = new AbortController()
    setTimeout(() => abort.abort(new Error('changed my mind')), ms)
    return { wait: '20s' as const, signal: abort.signal }
  },
}
type Options = { wait: number | '20s'; signal?: AbortSignal }

export const waysToGiveUp = Object.keys(ends) as (keyof typeof ends)[]

/** A held name, and a function by which another caller waits for it. */
export interface Meeting {
  readonly held: { release(): Promise<void> }
  acquire(options: Options): Promise<{ release(): Promise<void> }>
}

/** Ends waits at the same moment as grants, `times` times. Returns how often the grant and the end of the wait came first. */
export async function collide(
  how: keyof typeof ends,
  times: number,
  meet: (name: string, random: Random) => Promise<Meeting>,
): Promise<Record<Outcome, number>> {
  const seed = fixedSeedOf(how)
  const tally: Record<Outcome, number> = { granted: 0, 'gave up': 0 }
  let left = times
  const lane = async (name: string, random: Random) => {
    // Searches for the moment of the collision. The release comes later after a grant and earlier otherwise. The steps grow while outcomes repeat.
    let [offsetMs, stepMs] = [0, 1]
    let before: Outcome | undefined
    // Shorter waits could end on a slow machine before the request reaches the server.
    let minWaitMs = 16
    while (left-- > 0) {
      const { held, acquire } = await meet(name, random)
      const waitMs = minWaitMs + random.below(4)
      const waiting = acquire(ends[how](waitMs)).then(
        async (granted): Promise<Outcome> => {
          await granted.release()
          return 'granted'
        },
        (): Outcome => 'gave up',
      )
      await sleep(Math.max(0, waitMs + offsetMs))
      await held.release()
      const outcome = await waiting
      tally[outcome]++
      stepMs = outcome === before ? Math.min(stepMs * 1.5, minWaitMs) : 1
      before = outcome
      offsetMs += stepMs * (outcome === 'granted' ? random.fraction() : -random.fraction())
      if (offsetMs < -minWaitMs) {
        minWaitMs *= 1.5
        offsetMs = 0
      }
    }
  }
  await Promise.all(Array.from({ length: 6 }, (_, i) => lane(`n${i}`, randomFrom(seed + i))))
  console.log(`${how}: ${tally.granted} granted, ${tally['gave up']} gave up`)
  return tally
}
