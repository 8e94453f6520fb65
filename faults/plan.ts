// A run's plan: the faults with their times, targets and durations. The same seed generates the same plan.
import { type Random, randomFrom } from '../test/property/random.ts'
import type { Direction } from './network.ts'

const hourMs = 3_600_000
/** Fault durations, as multiples of the expiry. */
const durations = [0.15, 0.75, 1.05, 1.3, 2.25]
const directionSets: Direction[][] = [['to-server', 'to-client'], ['to-server'], ['to-client']]

/** One of the plan's faults, with its time and the details for its kind. */
export interface Step {
  at: number
  fault: string
  /** Index of the member that the fault hits. Undefined for server-wide faults. */
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
  /** Setting of the fleet's role, as in `alter role … set`. */
  setting?: string
  /** Number of transaction ids. */
  ahead?: number
}

interface Generator {
  random: Random
  on(): number
  duration(): number
}

const tables = ['job', 'claim', 'lease', 'permit', 'delivery', 'tick']
const settings = [
  ...["statement_timeout = '1s'", "lock_timeout = '50ms'", "idle_in_transaction_session_timeout = '300ms'"],
  ...["default_transaction_isolation = 'serializable'", "default_transaction_isolation = 'repeatable read'"],
  ...['default_transaction_read_only = on', "search_path = ''", 'search_path = pg_temp, public', 'jit_above_cost = 0'],
  ...[
    'enable_indexscan',
    'enable_bitmapscan',
    'enable_seqscan',
    'enable_nestloop',
    'enable_hashjoin',
    'enable_sort',
  ].map((name) => `${name} = off`),
]

/** Relative frequency and details of each fault. */
const faults: Record<string, { weight: number; draw(generator: Generator): Omit<Step, 'at' | 'fault'> }> = {
  kill: { weight: 6, draw: ({ random, on }) => ({ on: on(), forMs: random.below(1_500) }) },
  freeze: { weight: 6, draw: ({ on, duration }) => ({ on: on(), forMs: duration() }) },
  cut: {
    weight: 7,
    draw: ({ random, on, duration }) => ({
      on: on(),
      forMs: duration(),
      directions: random.pick(directionSets),
      forgets: random.chance(0.3),
    }),
  },
  'lose an answer': { weight: 5, draw: ({ on }) => ({ on: on() }) },
  delay: { weight: 2, draw: ({ random, on }) => ({ on: on(), forMs: 3_000, ms: 10 + random.below(200) }) },
  block: { weight: 2, draw: ({ on, duration }) => ({ on: on(), ms: duration() }) },
  'move a clock': { weight: 2, draw: ({ random, on }) => ({ on: on(), clockMs: (random.below(49) - 24) * hourMs }) },
  terminate: { weight: 6, draw: ({ random }) => ({ part: random.pick([0.2, 0.5, 1]), draw: random.below(1_000) }) },
  restart: { weight: 1, draw: ({ random }) => ({ mode: random.pick(['fast', 'immediate']) }) },
  'crash a backend': { weight: 1, draw: () => ({}) },
  restore: { weight: 1, draw: ({ random }) => ({ ahead: random.below(1_000_000) }) },
  'restart the pooler': { weight: 1, draw: () => ({}) },
  'fill the lock table': { weight: 1, draw: ({ random }) => ({ forMs: random.below(2_000) }) },
  'use up the connections': { weight: 1, draw: ({ random }) => ({ forMs: random.below(2_000) }) },
  'forget a snapshot': { weight: 2, draw: ({ random }) => ({ forMs: 2_000 + random.below(8_000) }) },
  'build an index': {
    weight: 2,
    draw: ({ random }) => ({ table: random.pick(tables) }),
  },
  migrate: { weight: 1, draw: () => ({}) },
  'keep terminating': {
    weight: 1,
    draw: ({ random }) => ({ part: 0.5, draw: random.below(1_000), forMs: random.below(3_000) }),
  },
  'vacuum a table': { weight: 1, draw: ({ random }) => ({ table: random.pick(tables) }) },
  'reindex a table': {
    weight: 1,
    draw: ({ random }) => ({ table: random.pick(tables), mode: random.pick(['fast', 'immediate']) }),
  },
  'lock a table': { weight: 2, draw: ({ random, duration }) => ({ table: random.pick(tables), forMs: duration() }) },
  'drop an index': { weight: 1, draw: ({ random }) => ({ draw: random.below(1_000), forMs: random.below(5_000) }) },
  'truncate a table': { weight: 1, draw: ({ random }) => ({ table: random.pick(tables) }) },
  'fill the disk': {
    weight: 1,
    draw: ({ random }) => ({ forMs: 2_000 + random.below(10_000), draw: random.below(1_000) }),
  },
  'reset the statistics': { weight: 1, draw: () => ({}) },
  'change a setting': {
    weight: 2,
    draw: ({ random }) => ({ setting: random.pick(settings), draw: random.below(1_000), forMs: random.below(5_000) }),
  },
}

export const faultNames = Object.keys(faults)

export interface PlanOptions {
  seed: number
  seconds: number
  /** Number of instances. */
  size: number
  expiryMs: number
  everyMs: number
  /** Faults to choose from, all with the same frequency. Undefined means all faults with their own frequencies. */
  onlyFaults: string[] | undefined
}

export function planOf({ seed, seconds, size, expiryMs, everyMs, onlyFaults }: PlanOptions): Step[] {
  const random = randomFrom(seed)
  const choice = onlyFaults ?? faultNames.flatMap((fault) => Array.from({ length: faults[fault]!.weight }, () => fault))
  const on = () => random.below(size)
  const duration = () => Math.round(random.pick(durations) * expiryMs)
  const steps: Step[] = []
  for (let at = random.below(everyMs); at < 1_000 * seconds; at += random.below(2 * everyMs)) {
    const fault = random.pick(choice)
    steps.push({ at, fault, ...faults[fault]!.draw({ random, on, duration }) })
  }
  return steps
}
