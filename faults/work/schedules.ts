import type { ScheduleOptions } from 'holdfast'
import { hostile } from '../../test/property/hostile.ts'
import { randomFrom } from '../../test/property/random.ts'
import type { Fixture, Workload } from './fixture.ts'

/** Schedules with different intervals and with different options for missed and overlapping ticks. */
export const rules: Record<string, ScheduleOptions> = {
  'every second': { every: '1s' },
  queued: { every: '2s', overlap: 'queue', missed: { all: 10 } },
  latest: { every: '1s', missed: 'latest', overlap: 'skip' },
}

/** Adds schedules whose runs have an effect through `tx`. Most runs are short, and some last until after the next tick. */
export function schedules({ holdfast, recordHold, handleOf, pause }: Fixture): Workload {
  const random = randomFrom(process.pid)
  for (const [name, rule] of Object.entries(rules)) {
    holdfast.schedules.add(name, rule, (run) =>
      recordHold(handleOf(run), [`schedule ${name}`], { tick: run.tick.getTime(), attempt: run.attempt }, async () => {
        await run.tx.query('insert into public.effect (what, id, by, fence) values ($1, $2, $3, $4)', [
          `schedule ${name}`,
          run.tick.toISOString(),
          process.pid,
          run.fence,
        ])
        await pause(random, run.signal)
        if (random.chance(0.1)) throw hostile(random).make()
      }),
    )
  }
  return {}
}
