import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { randomFrom } from '../property/random.ts'
import { countOf, fixedSeedOf } from '../property/seed.js'
import { until } from '../setup/facts.js'
import { runsAll } from '../setup/variants.js'
import { openDatabase, openInstance } from './fixture.js'
import { type Actor, type NamedSchedule, openHistory, prove, startActor } from './schedules-fixture.js'

// Versions of a program with different rules and names for the same schedules run at the same time. They are deployed, killed and rolled back.
// Every tick of the rule in force runs once or has one recorded reason.

const versions: NamedSchedule[][] = [
  [
    { name: 'rule', every: '1s', missed: { all: 2 } },
    { name: 'old name', every: '1s' },
  ],
  [
    { name: 'rule', every: '2s', missed: { all: 2 } },
    { name: 'new name', every: '1s', was: 'old name' },
  ],
  [
    { name: 'rule', cron: '*/3 * * * * *', missed: { all: 2 } },
    { name: 'new name', cron: '* * * * * *', was: 'old name' },
  ],
]

const count = countOf(1)

test.skipIf(!runsAll)(
  `each tick runs once or has one reason across ${count} deployments and rollbacks with kills`,
  {
    timeout: 0,
  },
  async () => {
    const seed = fixedSeedOf('schedules under deployments')
    const random = randomFrom(seed)
    const pick = (below: number) => random.below(below)
    const { url, witness } = await openDatabase()
    const operator = await openInstance(url)
    await witness.query(
      'create table effect (schedule text not null, tick timestamptz not null, fence bigint not null)',
    )
    const history = openHistory()
    const start = (version: number) =>
      startActor(url, history, {
        anchor: pick(2) === 0 ? 'required' : 'none',
        clockMs: (pick(49) - 24) * 3_600_000,
        schedules: versions[version]!,
      })
    let version = 0
    let actors: Actor[] = await Promise.all([start(0), start(0), start(0)])
    for (let deployment = 0; deployment < count; deployment++) {
      const next = (version + 1 + pick(versions.length - 1)) % versions.length
      const fresh: Actor[] = []
      for (const old of actors) {
        fresh.push(await start(next))
        await sleep(pick(800))
        // A process of the old version crashes during the deployment, and a supervisor starts the old version again.
        if (pick(3) === 0) {
          await old.kill()
          const again = await start(version)
          await sleep(pick(500))
          await again.close()
        } else if (pick(2) === 0) await old.kill()
        else await old.close()
      }
      actors = fresh
      version = next
      const [{ every, cron }] = versions[version] as [NamedSchedule]
      const expected = every ? { everyMs: Number.parseInt(every as string, 10) * 1_000 } : { cron, timezone: 'UTC' }
      await until(
        `the rule of version ${version} is in force`,
        async () => JSON.stringify((await operator.schedules.find('rule'))!.rule) === JSON.stringify(expected),
        // Checks for dead instances and rollbacks are seconds apart.
        20_000,
      )
    }
    for (const { name } of await operator.schedules.list()) {
      await operator.schedules.override(name, { at: new Date('2999-01-01T00:00:00Z') })
    }
    await until(
      'no run is running or waiting',
      async () => (await witness.query("select from holdfast.tick where state in ('running', 'waiting')")).length === 0,
      60_000,
    )
    await Promise.all(actors.map((actor) => actor.close()))
    // A renamed schedule is still one schedule.
    expect((await operator.schedules.list()).length).toBe(2)
    const tally = await prove(witness, history, { 'old name': 'new name' })
    console.log(`${count} deployments: ${JSON.stringify(tally)}`)
  },
)
