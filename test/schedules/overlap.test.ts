import { expect, test } from 'vitest'
import { type Holdfast, RunReplacedError } from '../../src/index.js'
import { sql, until } from '../setup/facts.js'
import { databaseUrl, open, openFleet } from '../setup/instances.js'
import { add, gapsOf, gate, runsOf, stopped, unproven, untilMember, untilRuns } from './fixture.js'

const second = 1_000

test('overlap "skip" records the ticks during a run as one gap', async () => {
  const url = await databaseUrl()
  const fleet = await openFleet(url, 2)
  const end = gate()
  let runningCount = 0
  let maxRunning = 0
  for (const holdfast of fleet) {
    add(holdfast, 'skips', { every: '1s' }, async () => {
      maxRunning = Math.max(maxRunning, ++runningCount)
      await end.opened
      runningCount--
    })
  }
  const gap = await until('three ticks are skipped', async () => {
    const [only, ...others] = await gapsOf(fleet[0]!, 'skips')
    expect(others).toEqual([])
    return only !== undefined && only.ticks >= 3 && only
  })
  end.open()
  const [first, second] = await untilRuns(fleet[0]!, 'skips', ['done'], 2)
  expect(gap.reason).toBe('overlap')
  expect(gap.first.getTime()).toBe(first!.tick.getTime() + 1_000)
  expect(gap.last.getTime()).toBe(gap.first.getTime() + (gap.ticks - 1) * 1_000)
  expect(second!.tick.getTime()).toBeGreaterThan(gap.last.getTime())
  expect(maxRunning).toBe(1)
  expect(await unproven(url, 'skips', 1_000)).toEqual([])
})

test('overlap "queue" starts one waiting tick after the run, and records further ticks as a gap', async () => {
  const url = await databaseUrl()
  const fleet = await openFleet(url, 2)
  const end = gate()
  let runningCount = 0
  let maxRunning = 0
  for (const holdfast of fleet) {
    add(holdfast, 'queues', { every: '1s', overlap: 'queue' }, async () => {
      maxRunning = Math.max(maxRunning, ++runningCount)
      await end.opened
      runningCount--
    })
  }
  await until('one tick waits and two are skipped', async () => {
    const [waiting] = (await runsOf(fleet[0]!, 'queues')).filter(({ state }) => state === 'waiting')
    const [gap] = await gapsOf(fleet[0]!, 'queues')
    return waiting && gap && gap.ticks >= 2
  })
  const [running, waiting] = await runsOf(fleet[0]!, 'queues')
  expect([running!.state, waiting!.state]).toEqual(['running', 'waiting'])
  expect(waiting!.tick.getTime()).toBe(running!.tick.getTime() + second)
  end.open()
  const done = await untilRuns(fleet[0]!, 'queues', ['done'], 2)
  expect(done[1]!.tick).toEqual(waiting!.tick)
  // The end of the run starts the waiting tick, not the periodic check of an idle instance.
  expect(done[1]!.startedAt!.getTime() - done[0]!.endedAt!.getTime()).toBeLessThan(3_000)
  expect(maxRunning).toBe(1)
  expect(await unproven(url, 'queues', second)).toEqual([])
})

test('overlap "allow" runs each tick, also during earlier runs', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const end = gate()
  let runningCount = 0
  add(holdfast, 'allows', { every: '1s', overlap: 'allow' }, async () => {
    runningCount++
    await end.opened
  })
  await until('three ticks run at the same time', () => runningCount === 3)
  expect(await gapsOf(holdfast, 'allows')).toEqual([])
  end.open()
  await untilRuns(holdfast, 'allows', ['done'], 3)
  expect(await unproven(url, 'allows', second)).toEqual([])
})

test.each(['required', 'none'] as const)(
  'overlap "replace" aborts the run, and the next tick starts after its end (anchor: %s)',
  async (anchor) => {
    const url = await databaseUrl()
    const fleet = await openFleet(url, 2, { anchor })
    const reasons: unknown[] = []
    let runningCount = 0
    let maxRunning = 0
    for (const holdfast of fleet) {
      add(holdfast, 'replaces', { every: '1s', overlap: 'replace' }, async ({ signal }) => {
        maxRunning = Math.max(maxRunning, ++runningCount)
        await stopped(signal).catch((reason) => reasons.push(reason))
        // The handler stops slowly, so that a second run that starts too early would be counted.
        await new Promise((resolve) => setTimeout(resolve, 100))
        runningCount--
        throw signal.reason
      })
    }
    const replaced = await untilRuns(fleet[0]!, 'replaces', ['cancelled'], 2)
    expect(replaced[0]!.error).toMatchObject({
      code: 'RUN_REPLACED',
      message: 'A later tick is replacing this run of schedule "replaces"',
    })
    expect(reasons[0]).toBeInstanceOf(RunReplacedError)
    expect(maxRunning).toBe(1)
    expect(await unproven(url, 'replaces', second)).toEqual([])
  },
)

test('overlap "replace" records a waiting tick as a gap when a later tick arrives, if the run does not stop', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const end = gate()
  add(holdfast, 'does not stop', { every: '1s', overlap: 'replace' }, () => end.opened)
  await until('two ticks have been replaced before they began', async () => {
    const ticks = (await gapsOf(holdfast, 'does not stop')).map(({ ticks }) => ticks)
    return ticks.reduce((sum, one) => sum + one, 0) >= 2
  })
  expect((await gapsOf(holdfast, 'does not stop')).every(({ reason }) => reason === 'overlap')).toBe(true)
  expect((await runsOf(holdfast, 'does not stop')).map(({ state }) => state)).toEqual(['running', 'waiting'])
  end.open()
  // The handler returned, so the run is done, although its signal was aborted.
  const done = await untilRuns(holdfast, 'does not stop', ['done'], 2)
  expect(done[0]!.error).toBeUndefined()
  expect(await unproven(url, 'does not stop', second)).toEqual([])
})

test('overlap "replace" does not start a replaced run again when its instance closes', async () => {
  const [a, b] = (await openFleet(await databaseUrl(), 2)) as [Holdfast, Holdfast]
  let isStarted = false
  const ignoring = add(a, 'replaced', { every: '7d', overlap: 'replace' }, async () => {
    isStarted = true
    await new Promise(() => {})
  })
  await untilMember(a, 'replaced')
  const first = await a.schedules.run('replaced')
  await until('the first run has started', () => isStarted)
  const ticks: number[] = []
  add(b, 'replaced', { every: '7d', overlap: 'replace' }, ({ tick }) => ticks.push(tick.getTime()))
  await untilMember(b, 'replaced')
  const next = await b.schedules.run('replaced')
  await ignoring.close({ within: 0 })
  await untilRuns(b, 'replaced', ['done'])
  expect(ticks).toEqual([next!.getTime()])
  const states = (await runsOf(b, 'replaced')).map(({ tick, state }) => [tick, state])
  expect(states).toEqual([
    [first, 'cancelled'],
    [next, 'done'],
  ])
})

test('overlap "replace" does not start a replaced run again if the response of its start was lost', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  let starts = 0
  add(holdfast, 'unknown', { every: '7d', overlap: 'replace' }, () => {
    starts++
  })
  await untilMember(holdfast, 'unknown')
  await holdfast.schedules.run('unknown')
  await untilRuns(holdfast, 'unknown', ['done'])
  // The instance does not know this run, as after a lost response.
  await sql(url, "update holdfast.tick set state = 'running', stopping = 'replaced', ended_at = null")
  await untilRuns(holdfast, 'unknown', ['cancelled'])
  expect(starts).toBe(1)
})
