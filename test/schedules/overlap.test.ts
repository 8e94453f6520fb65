import { expect, test } from 'vitest'
import { RunReplacedError } from '../../src/index.js'
import { until } from '../setup/facts.js'
import { databaseUrl, open, openFleet } from '../setup/instances.js'
import { add, gapsOf, gate, runsOf, stopped, unproven, untilRuns } from './fixture.js'

const second = 1_000

test('skip: ticks that come while a run is there are a gap, in one row', async () => {
  const url = await databaseUrl()
  const fleet = await openFleet(url, 2)
  const end = gate()
  let atOnce = 0
  let most = 0
  for (const holdfast of fleet) {
    add(holdfast, 'skips', { every: '1s' }, async () => {
      most = Math.max(most, ++atOnce)
      await end.opened
      atOnce--
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
  expect(most).toBe(1)
  expect(await unproven(url, 'skips', 1_000)).toEqual([])
})

test('queue: one waits and begins when the run has ended, further ones are a gap', async () => {
  const url = await databaseUrl()
  const fleet = await openFleet(url, 2)
  const end = gate()
  let atOnce = 0
  let most = 0
  for (const holdfast of fleet) {
    add(holdfast, 'queues', { every: '1s', overlap: 'queue' }, async () => {
      most = Math.max(most, ++atOnce)
      await end.opened
      atOnce--
    })
  }
  await until('one waits, and two are skipped', async () => {
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
  // Not at the next look of somebody who has nothing to do.
  expect(done[1]!.startedAt!.getTime() - done[0]!.endedAt!.getTime()).toBeLessThan(3_000)
  expect(most).toBe(1)
  expect(await unproven(url, 'queues', second)).toEqual([])
})

test('allow: each tick runs, beside those before', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const end = gate()
  let atOnce = 0
  add(holdfast, 'allows', { every: '1s', overlap: 'allow' }, async () => {
    atOnce++
    await end.opened
  })
  await until('three run at once', () => atOnce === 3)
  expect(await gapsOf(holdfast, 'allows')).toEqual([])
  end.open()
  await untilRuns(holdfast, 'allows', ['done'], 3)
  expect(await unproven(url, 'allows', second)).toEqual([])
})

test.each(['required', 'none'] as const)(
  'replace: the run is told, and the next begins when it has ended (anchor %s)',
  async (anchor) => {
    const url = await databaseUrl()
    const fleet = await openFleet(url, 2, { anchor })
    const reasons: unknown[] = []
    let atOnce = 0
    let most = 0
    for (const holdfast of fleet) {
      add(holdfast, 'replaces', { every: '1s', overlap: 'replace' }, async ({ signal }) => {
        most = Math.max(most, ++atOnce)
        await stopped(signal).catch((reason) => reasons.push(reason))
        // It takes its time to stop: another that began meanwhile would be counted beside it.
        await new Promise((resolve) => setTimeout(resolve, 100))
        atOnce--
        throw signal.reason
      })
    }
    const replaced = await untilRuns(fleet[0]!, 'replaces', ['cancelled'], 2)
    expect(replaced[0]!.error).toMatchObject({
      code: 'RUN_REPLACED',
      message: 'A later tick is replacing this run of schedule "replaces"',
    })
    expect(reasons[0]).toBeInstanceOf(RunReplacedError)
    expect(most).toBe(1)
    expect(await unproven(url, 'replaces', second)).toEqual([])
  },
)

test('replace: a tick that waits for a run which does not stop is a gap when a later one comes', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const end = gate()
  add(holdfast, 'deaf', { every: '1s', overlap: 'replace' }, () => end.opened)
  await until('two ticks have been replaced before they began', async () => {
    const ticks = (await gapsOf(holdfast, 'deaf')).map(({ ticks }) => ticks)
    return ticks.reduce((sum, one) => sum + one, 0) >= 2
  })
  expect((await gapsOf(holdfast, 'deaf')).every(({ reason }) => reason === 'overlap')).toBe(true)
  expect((await runsOf(holdfast, 'deaf')).map(({ state }) => state)).toEqual(['running', 'waiting'])
  end.open()
  // It returned, so it is done, although it was told to stop.
  const done = await untilRuns(holdfast, 'deaf', ['done'], 2)
  expect(done[0]!.error).toBeUndefined()
  expect(await unproven(url, 'deaf', second)).toEqual([])
})
