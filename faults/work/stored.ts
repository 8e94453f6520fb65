import { defineJob, type RuleOptions } from 'holdfast'
import { type Random, randomFrom } from '../../test/property/random.ts'
import type { Fixture, Workload } from './fixture.ts'

export const storedNames = ['stored a', 'stored b', 'stored c', 'stored d']
const rules: readonly RuleOptions[] = [{ every: '1s' }, { every: '2s' }, { cron: '*/3 * * * * *' }]

/**
 * Creates, changes and removes schedules that are stored in the database. Most upserts change nothing. The job of each tick has an effect
 * through `tx`.
 */
export function stored({ holdfast, sleep }: Fixture): Workload {
  const random = randomFrom(process.pid)
  const tick = defineJob('stored tick', {
    maxCrashes: 1_000,
    retry: { attempts: 1_000, backoff: 5, maxBackoff: 200 },
    async run(_: { name: string }, job) {
      const { schedule, tick } = job.meta
      await job.tx.query("insert into public.effect (what, id, by) values ('stored', $1, $2)", [
        `${schedule} ${tick}`,
        process.pid,
      ])
      if (random.chance(0.1)) throw new Error('by chance')
    },
  })
  holdfast.jobs.work([tick], { concurrency: 5 })

  return {
    async step(random: Random) {
      const name = random.pick(storedNames)
      // The history of the others grows during the whole run, because removing a schedule removes its history.
      if (name === 'stored d' && random.chance(0.3)) await holdfast.schedules.remove(name)
      else {
        // The rule that belongs to the name is the usual one, so that most upserts do not change the rule.
        const rule = random.chance(0.1) ? random.pick(rules) : rules[storedNames.indexOf(name) % rules.length]!
        await holdfast.schedules.upsert(name, { ...rule, job: tick, input: { name }, missed: { all: 5 } })
      }
      await sleep(random.below(500))
    },
  }
}
