import type { ScheduleOptions } from 'holdfast'
import { hostile } from '../../test/property/hostile.ts'
import { randomFrom } from '../../test/property/random.ts'
import type { Fixture, Work } from './fixture.ts'

/** Each second, and each other second with other rules for what is late. */
export const rules: Record<string, ScheduleOptions> = {
  'every second': { every: '1s' },
  queued: { every: '2s', overlap: 'queue', missed: { all: 10 } },
  latest: { every: '1s', missed: 'latest', overlap: 'skip' },
}

/** Runs that have an effect by tx, mostly short, at times longer than it takes until the next tick. */
export function schedules({ holdfast, believe, byItsSignal, keep }: Fixture): Work {
  const random = randomFrom(process.pid)
  for (const [name, rule] of Object.entries(rules)) {
    holdfast.schedules.add(name, rule, (run) =>
      believe(byItsSignal(run), [`schedule ${name}`], { tick: run.tick.getTime(), attempt: run.attempt }, async () => {
        await run.tx.query('insert into effect (what, id, by, fence) values ($1, $2, $3, $4)', [
          `schedule ${name}`,
          run.tick.toISOString(),
          process.pid,
          run.fence,
        ])
        await keep(random, run.signal)
        if (random.chance(0.1)) throw hostile(random).make()
      }),
    )
  }
  return {}
}
