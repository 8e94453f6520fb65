import { Temporal } from 'temporal-polyfill'
import { expect, test } from 'vitest'
import { defineJob, UsageError } from '../../src/index.js'
import { caught } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'

const job = defineJob('job', { run: () => {} })

test('delay, wait, ttl and rates accept a Temporal.Duration', async () => {
  const holdfast = await open({ url: await databaseUrl(), expiry: Temporal.Duration.from('PT10S') })
  const before = Date.now()
  const { id } = await holdfast.jobs.enqueue(job, null, { delay: Temporal.Duration.from({ hours: 1, minutes: 30 }) })
  const { runAt } = (await holdfast.jobs.find(id))!
  expect(runAt!.getTime() - before).toBeGreaterThan(5_390_000)
  expect(runAt!.getTime() - before).toBeLessThan(5_460_000)
  await holdfast.leases.with('lease', { ttl: Temporal.Duration.from({ seconds: 10 }) }, () => {})
  const rate = { count: 1, per: Temporal.Duration.from({ days: 1 }) }
  expect(await holdfast.limits.consume('rate', { rate })).toMatchObject({ allowed: true })
  const error = await caught(
    UsageError,
    holdfast.jobs.enqueue(job, null, { delay: Temporal.Duration.from({ months: 1 }) }),
  )
  expect(error.message).toBe(
    'Expected delay to be a duration of at least 0ms and at most 3650d, got an object (Duration)',
  )
})

test('runAt, at and round accept a Temporal.Instant and a Temporal.ZonedDateTime', async () => {
  const holdfast = await open({ url: await databaseUrl() })
  const instant = Temporal.Instant.from('2099-01-31T03:00:00Z')
  const zoned = instant.toZonedDateTimeISO('Europe/London')
  for (const runAt of [instant, zoned]) {
    const { id } = await holdfast.jobs.enqueue(job, null, { runAt })
    expect((await holdfast.jobs.find(id))!.runAt).toEqual(new Date('2099-01-31T03:00:00Z'))
  }
  holdfast.schedules.add('instant', { at: instant }, () => {})
  holdfast.schedules.add('zoned', { at: zoned }, () => {})
  for (const name of ['instant', 'zoned']) {
    const status = await holdfast.schedules.find(name)
    expect(status).toMatchObject({ rule: { at: new Date('2099-01-31T03:00:00Z') } })
  }
  const calls: string[] = []
  await holdfast.shares.each('share', ['x'], { round: instant }, (name) => void calls.push(name))
  await holdfast.shares.each(
    'share',
    ['x'],
    {
      round: new Date(instant.epochMilliseconds),
    },
    (name) => void calls.push(name),
  )
  expect(calls).toEqual(['x'])
  const error = await caught(
    UsageError,
    holdfast.jobs.enqueue(job, null, { runAt: Temporal.PlainDate.from('2099-01-31') as never }),
  )
  expect(error.message).toBe('Expected runAt to be a valid Date, got an object (PlainDate)')
})
