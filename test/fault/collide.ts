import { setTimeout as sleep } from 'node:timers/promises'
import { type Random, randomFrom } from '../property/random.ts'
import { fixedSeedOf } from '../property/seed.js'

export type Outcome = 'granted' | 'given up'

/** How a wait ends that would end after about `ms`. */
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

/** What is held, and how somebody else asks for it meanwhile. */
export interface Meeting {
  readonly held: { release(): Promise<void> }
  ask(options: Options): Promise<{ release(): Promise<void> }>
}

/** The end of a wait and the grant in the same instant, so many times. Answers with how often which of the two was first. */
export async function collide(
  how: keyof typeof ends,
  times: number,
  meet: (name: string, random: Random) => Promise<Meeting>,
): Promise<Record<Outcome, number>> {
  const seed = fixedSeedOf(how)
  const tally: Record<Outcome, number> = { granted: 0, 'given up': 0 }
  let left = times
  const lane = async (name: string, random: Random) => {
    // Searches for the instant by itself: later after a grant, earlier after none, in longer steps the longer it is not there.
    let [offsetMs, stepMs] = [0, 1]
    let before: Outcome | undefined
    // On a slow machine the ask is not even there after so little.
    let leastMs = 16
    while (left-- > 0) {
      const { held, ask } = await meet(name, random)
      const waitMs = leastMs + random.below(4)
      const waiting = ask(ends[how](waitMs)).then(
        async (granted): Promise<Outcome> => {
          await granted.release()
          return 'granted'
        },
        (): Outcome => 'given up',
      )
      await sleep(Math.max(0, waitMs + offsetMs))
      await held.release()
      const outcome = await waiting
      tally[outcome]++
      stepMs = outcome === before ? Math.min(stepMs * 1.5, leastMs) : 1
      before = outcome
      offsetMs += stepMs * (outcome === 'granted' ? random.fraction() : -random.fraction())
      if (offsetMs < -leastMs) {
        leastMs *= 1.5
        offsetMs = 0
      }
    }
  }
  await Promise.all(Array.from({ length: 6 }, (_, i) => lane(`n${i}`, randomFrom(seed + i))))
  console.log(`${how}: ${tally.granted} granted, ${tally['given up']} given up`)
  return tally
}
