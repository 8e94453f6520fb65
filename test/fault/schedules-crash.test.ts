import { expect, test } from 'vitest'
import type { ScheduleOptions } from '../../src/index.js'
import { until } from '../setup/facts.js'
import { runsAll } from '../setup/variants.js'
import { quantiles } from './children.js'
import { expiryMs, openDatabase, openInstance } from './fixture.js'
import { type Actor, openHistory, prove, startActor } from './schedules-fixture.js'

const schedules: ({ name: string } & ScheduleOptions)[] = [{ name: 'hold', every: '365d' }]
const kills = runsAll ? 4 : 2

const holding = (actors: readonly Actor[], attempt: number) => actors.find(({ started }) => started.at(-1) === attempt)

test(`another instance runs the tick after each of ${kills} kills during its run`, { timeout: 120_000 }, async () => {
  const { url } = await openDatabase()
  const operator = await openInstance(url)
  const history = openHistory()
  // A takeover that waited for their expiry would take a minute.
  const given = { anchor: 'required', clockMs: 0, schedules, expiryMs: 60_000 } as const
  const took: number[] = []
  for (let round = 0; round < kills / 2; round++) {
    const actors = await Promise.all(Array.from({ length: 4 }, () => startActor(url, history, given)))
    await until(
      'all processes have the schedule',
      async () => (await operator.schedules.find('hold'))?.members.length === 4,
    )
    const tick = await operator.schedules.run('hold')
    for (const attempt of [1, 2]) {
      const victim = await until(`attempt ${attempt} runs`, () => holding(actors, attempt))
      const from = performance.now()
      victim.child.kill('SIGKILL')
      await until(`attempt ${attempt + 1} runs`, () => holding(actors, attempt + 1))
      took.push(performance.now() - from)
    }
    const [run] = await operator.schedules.runs('hold')
    expect(run).toMatchObject({ tick, state: 'running', attempt: 3 })
    await holding(actors, 3)!.kill()
    await until('the run is broken', async () => {
      const [last] = await operator.schedules.runs('hold', { limit: 1 })
      return last?.kind === 'run' && last.state === 'broken'
    })
    await Promise.all(actors.map(({ child, kill }) => (child.signalCode === null ? kill() : undefined)))
    await until(
      'no process has the schedule',
      async () => (await operator.schedules.find('hold'))?.members.length === 0,
    )
  }
  console.log(`from the kill of a run to the next attempt elsewhere: ${quantiles(took)}`)
})

test.each(['required', 'none'] as const)(
  'a frozen process gives up its run before another process runs the tick (anchor: %s)',
  { timeout: 60_000 },
  async (anchor) => {
    const { url, witness } = await openDatabase()
    await witness.query('create table effect (schedule text, tick timestamptz, fence bigint)')
    const operator = await openInstance(url)
    const history = openHistory()
    const given = { anchor, clockMs: 0, schedules }
    const actors = await Promise.all([startActor(url, history, given), startActor(url, history, given)])
    await until(
      'both processes have the schedule',
      async () => (await operator.schedules.find('hold'))?.members.length === 2,
    )
    await operator.schedules.run('hold')
    const frozen = await until('the first attempt runs', () => holding(actors, 1))
    const from = performance.now()
    frozen.child.kill('SIGSTOP')
    await until('the second attempt runs', () => holding(actors, 2), 20_000)
    expect(performance.now() - from).toBeGreaterThan(expiryMs / 4)
    frozen.child.kill('SIGCONT')
    await until(
      'the thawed process has the schedule again',
      async () => (await operator.schedules.find('hold'))?.members.length === 2,
    )
    const [run] = await operator.schedules.runs('hold')
    expect(run).toMatchObject({ state: 'running', attempt: 2 })
    await Promise.all(actors.map((actor) => actor.kill()))
    await until(
      'no process has the schedule',
      async () => (await operator.schedules.find('hold'))?.members.length === 0,
      20_000,
    )
    await witness.query("update holdfast.tick set state = 'broken'")
    await prove(witness, history)
  },
)
