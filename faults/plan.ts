// The plan of a run: what happens when, to whom and for how long. The same seed gives the same plan.
import { type Random, randomFrom } from '../test/property/random.ts'
import type { Direction } from './network.ts'

const hourMs = 3_600_000
/** Shorter than the expiry, about as long, and longer. */
const spells = [0.15, 0.75, 1.05, 1.3, 2.25]
const ways: Direction[][] = [['to-server', 'to-client'], ['to-server'], ['to-client']]

/** What happens, when, and its details: each fault has its own. */
export interface Step {
  at: number
  fault: string
  on?: number
  forMs?: number
  ms?: number
  clockMs?: number
  directions?: Direction[]
  forgets?: boolean
  part?: number
  draw?: number
  mode?: 'fast' | 'immediate'
  table?: string
  /** In transaction ids. */
  ahead?: number
}

interface Drawn {
  random: Random
  on(): number
  spell(): number
}

/** How often each fault comes beside the others, and its details. `on` is the place of an instance. */
const faults: Record<string, { weight: number; draw(drawn: Drawn): Omit<Step, 'at' | 'fault'> }> = {
  kill: { weight: 6, draw: ({ random, on }) => ({ on: on(), forMs: random.below(1_500) }) },
  freeze: { weight: 6, draw: ({ on, spell }) => ({ on: on(), forMs: spell() }) },
  cut: {
    weight: 7,
    draw: ({ random, on, spell }) => ({
      on: on(),
      forMs: spell(),
      directions: random.pick(ways),
      forgets: random.chance(0.3),
    }),
  },
  'lose an answer': { weight: 5, draw: ({ on }) => ({ on: on() }) },
  delay: { weight: 2, draw: ({ random, on }) => ({ on: on(), forMs: 3_000, ms: 10 + random.below(200) }) },
  block: { weight: 2, draw: ({ on, spell }) => ({ on: on(), ms: spell() }) },
  'move a clock': { weight: 2, draw: ({ random, on }) => ({ on: on(), clockMs: (random.below(49) - 24) * hourMs }) },
  terminate: { weight: 6, draw: ({ random }) => ({ part: random.pick([0.2, 0.5, 1]), draw: random.below(1_000) }) },
  restart: { weight: 1, draw: ({ random }) => ({ mode: random.pick(['fast', 'immediate']) }) },
  'crash a backend': { weight: 1, draw: () => ({}) },
  restore: { weight: 1, draw: ({ random }) => ({ ahead: random.below(1_000_000) }) },
  'restart the pooler': { weight: 1, draw: () => ({}) },
  'fill the lock table': { weight: 1, draw: ({ random }) => ({ forMs: random.below(2_000) }) },
  'fill the connections': { weight: 1, draw: ({ random }) => ({ forMs: random.below(2_000) }) },
  'forget a snapshot': { weight: 2, draw: ({ random }) => ({ forMs: 2_000 + random.below(8_000) }) },
  'build an index': {
    weight: 2,
    draw: ({ random }) => ({ table: random.pick(['job', 'claim', 'lease', 'permit', 'delivery', 'tick']) }),
  },
  migrate: { weight: 1, draw: () => ({}) },
}

export const faultNames = Object.keys(faults)

export interface Planned {
  seed: number
  seconds: number
  /** How many instances there are. */
  size: number
  expiryMs: number
  everyMs: number
  /** Which faults there may be, all alike then. */
  among: string[] | undefined
}

export function planOf({ seed, seconds, size, expiryMs, everyMs, among }: Planned): Step[] {
  const random = randomFrom(seed)
  const choice = among ?? faultNames.flatMap((fault) => Array.from({ length: faults[fault]!.weight }, () => fault))
  const on = () => random.below(size)
  const spell = () => Math.round(random.pick(spells) * expiryMs)
  const steps: Step[] = []
  for (let at = random.below(everyMs); at < 1_000 * seconds; at += random.below(2 * everyMs)) {
    const fault = random.pick(choice)
    steps.push({ at, fault, ...faults[fault]!.draw({ random, on, spell }) })
  }
  return steps
}
