// Tests the data and the acts of the pages Schedules and Instances against the database.

import { expect, onTestFinished, test } from 'vitest'
import type { Holdfast } from '../../src/index.js'
import { Observer } from '../../src/observe/index.js'
import { fromPgPool } from '../../src/postgres/index.js'
import { sql, sqlPool, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { board, serve } from './fixture.js'

/** Returns functions that send the requests of a browser to a dashboard. */
async function openBoard(url: string, options: object = {}) {
  const base = await serve(board({ url, ...options }))
  return {
    async view<Data>(name: string, params: Record<string, string> = {}): Promise<Data> {
      const answer = await fetch(`${base}/api/view/${name}?${new URLSearchParams(params)}`)
      expect(answer.status, await answer.clone().text()).toBe(200)
      return ((await answer.json()) as { data: Data }).data
    },
    async act(name: string, params: object, preview = false) {
      const answer = await fetch(`${base}/api/act/${name}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ params, ...(preview ? { preview } : { reason: 'a test' }) }),
      })
      return (await answer.json()) as {
        consequence: { text: string; dangerous: boolean; facts?: [string, string][] }
        outcome: { done: boolean; text: string }
      }
    },
  }
}

function observerOf(url: string): Observer {
  const pool = sqlPool({ connectionString: url, max: 2 })
  return new Observer(fromPgPool(pool))
}

const namespace = 'shop'

test('schedules are run, paused, resumed and overridden, each after a preview of the effect', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url, namespace })
  let release = () => {}
  const over = new AbortController()
  onTestFinished(() => over.abort())
  const stopped: string[] = []
  holdfast.schedules.add('report', { cron: '0 3 * * *', timezone: 'Europe/London' }, async ({ log }) => {
    log('half <way>')
    await new Promise<void>((resolve) => {
      release = resolve
    })
  })
  holdfast.schedules.add('mails', { every: '1d', overlap: 'replace' }, async ({ signal }) => {
    await new Promise((resolve) => AbortSignal.any([signal, over.signal]).addEventListener('abort', resolve))
    if (signal.aborted) stopped.push((signal.reason as Error).name)
  })
  await until('all schedules have members', async () =>
    (await holdfast.schedules.list()).every(({ members }) => members.length),
  )
  await until('both schedules exist', async () => (await holdfast.schedules.list()).length === 2)
  const { view, act } = await openBoard(url, {
    redact: (payload: unknown) => (Array.isArray(payload) ? ['hidden'] : payload),
  })
  const name = 'report'

  const before = await act('run-schedule', { namespace, name }, true)
  expect(before.consequence).toMatchObject({ dangerous: false })
  expect(before.consequence.text).toMatch(/Its only member will start an additional run of "report" now/)
  const { outcome } = await act('run-schedule', { namespace, name })
  expect(outcome).toMatchObject({ done: true })
  await until('the run has started', async () =>
    (await runsOf(holdfast, name)).some(({ state }) => state === 'running'),
  )

  // A second run would not start. An act that requests it anyway reports that.
  expect((await act('run-schedule', { namespace, name }, true)).consequence.text).toMatch(
    /Nothing will happen: .* is running it/,
  )
  expect((await act('run-schedule', { namespace, name })).outcome).toMatchObject({ done: false })
  await act('run-schedule', { namespace, name: 'mails' })
  await until('the run of mails has started', async () =>
    (await runsOf(holdfast, 'mails')).some(({ state }) => state === 'running'),
  )
  const replaced = await act('run-schedule', { namespace, name: 'mails' }, true)
  expect(replaced.consequence).toMatchObject({ dangerous: true })
  expect(replaced.consequence.text).toMatch(/Asks .* to stop the current run/)
  await act('run-schedule', { namespace, name: 'mails' })
  await until('the earlier run was aborted', () => stopped[0] === 'RunReplacedError')

  release()
  await until('the run has ended', async () => (await runsOf(holdfast, name)).some(({ state }) => state === 'done'))
  const [run] = (
    await view<{ runs: { tick: string; extra: boolean; lines: number }[] }>('schedule', { namespace, name })
  ).runs
  expect(run).toMatchObject({ extra: true, lines: 1, state: 'done', attempt: 1, instance: holdfast.id })
  expect(await view('schedule-run', { namespace, name, tick: run!.tick, extra: 'true' })).toEqual({
    error: null,
    log: [{ at: null, attempt: null, text: 'hidden', data: null }],
  })
  expect(await view('schedule-run', { namespace, name, tick: run!.tick, extra: 'false' })).toBeNull()
  expect(await view('schedule', { namespace, name: 'no such' })).toBeNull()

  expect((await act('pause-schedule', { namespace, name }, true)).consequence.text).toMatch(/The next tick would be at/)
  expect((await act('pause-schedule', { namespace, name })).outcome.done).toBe(true)
  expect((await act('pause-schedule', { namespace, name })).outcome).toMatchObject({
    done: true,
    text: '"report" was already paused.',
  })
  // As if three nights had passed.
  await sql(url, "update holdfast.schedule set next_at = next_at - interval '3 days' where name = 'report'")
  expect((await act('resume-schedule', { namespace, name }, true)).consequence.text).toContain('The 3 ticks')
  const resumed = await act('resume-schedule', { namespace, name })
  expect(resumed.outcome).toMatchObject({ done: true, text: expect.stringContaining('its next tick is at') })
  expect((await act('resume-schedule', { namespace, name })).outcome).toMatchObject({ done: false })
  const rule = { namespace, name, everyMs: 3_600_000 }
  expect((await act('override-schedule', rule, true)).consequence).toMatchObject({
    applies: true,
    text: expect.stringContaining('will follow the rule every 1h until the override is cleared'),
  })
  expect((await act('override-schedule', rule)).outcome).toMatchObject({ done: true })
  expect((await act('override-schedule', { namespace, name }, true)).consequence).toMatchObject({ applies: true })
  expect((await act('override-schedule', { namespace, name })).outcome).toMatchObject({ done: true })
  expect((await act('override-schedule', { namespace, name }, true)).consequence).toMatchObject({ applies: false })
  expect((await act('override-schedule', { namespace, name })).outcome).toMatchObject({ done: false })

  const { gaps } = await view<{ gaps: object[] }>('schedule', { namespace, name })
  expect(gaps).toMatchObject([{ ticks: 3, reason: 'paused' }])
  expect((await act('pause-schedule', { namespace, name: 'no such' })).outcome).toMatchObject({ done: false })

  const { rows } = await view<{ rows: { act: string; reason: string; outcome: string; visitor: string }[] }>('audit')
  expect(rows[0]).toMatchObject({
    act: 'pause-schedule',
    reason: 'a test',
    outcome: expect.stringContaining('no such'),
  })
  expect(rows.map((row) => row.act)).toContain('resume-schedule')
})

test('an instance is drained after a preview of its running work', async () => {
  const url = await databaseUrl()
  const [one, other] = [await open({ url, namespace }), await open({ url, namespace, anchor: 'none' })]
  await one.locks.acquire('etl')
  const controller = new AbortController()
  const waits = other.locks.acquire('etl', { signal: controller.signal }).catch(() => {})
  let release = () => {}
  onTestFinished(() => release())
  one.schedules.add('report', { every: '365d' }, () => new Promise<void>((resolve) => (release = resolve)))
  // Without an anchor, an instance has a row only if it takes part in something, here in a schedule.
  other.schedules.add('other', { every: '365d' }, () => {})
  await until(
    'both schedules have members',
    async () => (await one.schedules.list()).filter(({ members }) => members.length).length === 2,
  )
  await one.schedules.run('report')
  const { view, act } = await openBoard(url)
  type Rows = { rows: { id: string; alive: boolean; state: string; isAnchored: boolean; lastSeenAt: string | null }[] }
  await until(
    'the run has started',
    async () => (await view<{ runs: unknown[] }>('instance', { id: one.id })).runs.length === 1,
  )

  const { rows } = await view<Rows>('instances')
  expect(rows.find(({ id }) => id === one.id)).toMatchObject({
    alive: true,
    isAnchored: true,
    held: 1,
    reconnects: 0,
    pooler: 'none',
  })
  expect(rows.find(({ id }) => id === other.id)).toMatchObject({ alive: true, isAnchored: false, pid: null })
  for (const { lastSeenAt } of rows) expect(Math.abs(Date.now() - Date.parse(lastSeenAt!))).toBeLessThan(60_000)
  expect(await view('instance', { id: one.id })).toMatchObject({
    holds: [{ label: 'etl', mode: 'exclusive' }],
    runs: [{ name: 'report', extra: true }],
    schedules: 1,
  })
  expect(await view('instance', { id: 'nobody' })).toBeNull()

  const { consequence } = await act('drain-instance', { id: one.id }, true)
  expect(consequence).toMatchObject({
    dangerous: true,
    text: expect.stringContaining('Currently running there: 1 run of a schedule.'),
  })
  expect(consequence.facts).toContainEqual(['Holds', 'etl'])
  expect((await act('drain-instance', { id: one.id, within: 60 })).outcome).toMatchObject({ done: true })
  await until('the instance drains', async () => (await view<Rows>('instances')).rows[0]!.state === 'draining')
  expect((await act('drain-instance', { id: one.id })).outcome).toMatchObject({
    done: true,
    text: expect.stringMatching(/already draining/),
  })
  expect((await act('drain-instance', { id: 'nobody' })).outcome).toMatchObject({ done: false })
  release()
  controller.abort()
  await waits
})

test('the preview of a drain finds a delivery among many later ones, and reports deliveries that were not searched', async () => {
  const url = await databaseUrl()
  const { id, once } = await open({ url, namespace })
  let release = () => {}
  const running = once.run('long', () => new Promise<void>((resolve) => (release = resolve)))
  onTestFinished(() => release())
  await until('the delivery runs', async () => (await sql(url, 'select from holdfast.delivery')).length === 1)
  const { act } = await openBoard(url)
  const previewAfter = async (later: number) => {
    await sql(
      url,
      `insert into holdfast.delivery (namespace, key, state, token, session, instance, fence, started_at, expires_at)
       select 'shop', 'later ' || number, 'done', '', 0, '', 0, now(), now() + interval '1 year'
       from generate_series(1, ${later}) as number
       on conflict do nothing`,
    )
    return (await act('drain-instance', { id }, true)).consequence
  }
  const found = await previewAfter(19_998)
  expect(found).toMatchObject({
    dangerous: true,
    text: expect.stringContaining('Currently running there: 1 delivery.'),
  })
  expect(found.text).not.toContain('searched')
  const notFound = await previewAfter(20_000)
  expect(notFound.text).toContain('No running work was found there. Only the latest 20,000 deliveries were searched')
  release()
  await running
})

test('the tick timeline shows each tick once: runs, gaps, pauses, upcoming ticks and clock changes', async () => {
  const url = await databaseUrl()
  const observer = observerOf(url)
  // 15 minutes of a schedule that ticks every second, with some failed runs, after a gap of an hour. A paused schedule. A
  // schedule with a time zone.
  await sql(
    url,
    `insert into holdfast.schedule (key, namespace, name, rule, next_at, settled_at, paused_at, overlap, missed, catch_up, reruns) values
       (1, 'shop', 'second', '{"every":1000}', date_trunc('second', now()) + interval '1 second', now(), null, 'skip', 'skip', 0, true),
       (2, 'shop', 'paused', '{"every":10000}', date_trunc('second', now()) - interval '5 minutes', now(), now() - interval '5 minutes', 'skip', 'skip', 0, true),
       (3, 'shop', 'zone', '{"cron":"*/30 * * * *","timezone":"Europe/London"}', date_trunc('hour', now()) + interval '1 hour', now(), null, 'skip', 'skip', 0, true);
     insert into holdfast.tick (schedule, at, state, instance, fence, attempt, started_at, ended_at)
       select 1, at, case when extract(epoch from at)::bigint % 300 = 7 then 'failed' else 'done' end,
         case when extract(epoch from at)::bigint % 3 = 0 then 'a' else 'b' end, 1, 1, at + interval '20 ms', at + interval '30 ms'
       from generate_series(date_trunc('second', now()) - interval '15 minutes', date_trunc('second', now()), '1 second') as at;
     insert into holdfast.gap values (1, date_trunc('second', now()) - interval '75 minutes', date_trunc('second', now()) - interval '901 seconds', 3600, 'no instance')`,
  )
  const timeline = await observer.schedules.tickTimeline({ minutes: 120, steps: 70 })
  expect(timeline).toMatchObject({ count: 3, step: 120_000 })
  const [paused, second, zone] = timeline.rows
  expect(paused!.bands).toMatchObject([{ reason: 'paused', ticks: expect.closeTo(31, -1) }])
  expect(paused!.upcoming).toEqual([])
  expect(second!.bands).toMatchObject([{ reason: 'no instance', ticks: 3_600 }])
  // The schedule has more ticks than the observer reads. Their number comes from the rule, and the failed runs are complete.
  expect(second!.cells.reduce((sum, { ticks }) => sum + ticks, 0)).toBe(901)
  expect(second!.cells.some(({ isEstimate }) => isEstimate)).toBe(true)
  const failed = second!.cells.flatMap(({ runs }) => runs.filter(({ state }) => state === 'failed'))
  expect(failed.reduce((sum, { n }) => sum + n, 0)).toBe(3)
  expect(second!.upcoming.reduce((sum, { ticks }) => sum + ticks, 0)).toBeGreaterThan(1_000)
  expect(zone).toMatchObject({ timezone: 'Europe/London', rule: '*/30 * * * * Europe/London' })

  // In a minute, each tick has its own cell, with the instance that has won it.
  const minute = await observer.schedules.tickTimeline({ minutes: 1, steps: 70, name: 'second' })
  expect(minute.step).toBe(1_000)
  const { cells } = minute.rows[0]!
  expect(cells.length).toBeGreaterThan(55)
  for (const { ticks, isEstimate, runs, lateMs } of cells) {
    expect({ ticks, about: isEstimate, winners: runs.length, lateMs }).toEqual({
      ticks: 1,
      about: false,
      winners: 1,
      lateMs: 20,
    })
  }
  expect((await observer.schedules.list({ search: 'SEC' })).rows).toMatchObject([
    { name: 'second', members: 0, last: { lateMs: 20, tookMs: 10 } },
  ])
  const details = await observer.schedules.find('shop', 'zone')
  expect(details!.clockChange).toMatchObject({
    local: [expect.stringMatching(/^0[12]:00:00$/), expect.stringMatching(/^0[12]:00:00$/)],
  })
  expect((await observer.schedules.find('shop', 'paused'))!.unrecordedTicks).toBeGreaterThan(28)
})

function runsOf(holdfast: Holdfast, name: string) {
  return holdfast.schedules.runs(name).then((all) => all.filter((past) => past.kind === 'run'))
}
