// Tests the acts of visitors: their preview, their outcome, and their entry in the audit, which exists in every case.
import type pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { redactWith } from '../../src/dashboard/redact.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { sql, sqlPool, until } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { act, board, serve, watch } from './fixture.js'

let database: FreshDatabase
beforeAll(async () => {
  database = await freshDatabase()
})
afterAll(() => database.drop())

const entries = () => sql(database.url, 'select *, params::text as params from holdfast.audit order by id')

test('an act is recorded before and after it is done, with any characters in the name', async () => {
  const { url } = database
  const name = `<script>alert('${'x'.repeat(440)}')</script>"\\ \u202e$1 \u0007`
  const holdfast = await open({ url })
  const lock = await holdfast.locks.acquire(name)
  const params = { key: lock.keys[0]! }
  const auth = () => ({ name: 'ada <ada@example>', rights: ['release-name' as const] })
  const base = await serve(board({ url, auth }))
  const { heard } = await watch(base, 'audit')

  const previewed = await act(base, 'release-name', { params, preview: true })
  expect(previewed).toMatchObject({
    status: 200,
    answer: { consequence: { subject: expect.stringContaining(name), dangerous: false } },
  })
  expect(await entries()).toEqual([])
  expect(lock.signal.aborted).toBe(false)

  const done = await act(base, 'release-name', { params, reason: 'it was in the way' })
  expect(done).toMatchObject({ status: 200, answer: { outcome: { done: true, text: expect.stringContaining(name) } } })
  await until('the holder has received the request', () => lock.signal.aborted)
  const { consequence } = previewed.answer as { consequence: { text: string; subject: string } }
  expect(await entries()).toMatchObject([
    {
      visitor: 'ada <ada@example>',
      act: 'release-name',
      subject: consequence.subject,
      params: JSON.stringify(params).replace(':', ': '),
      reason: 'it was in the way',
      consequence: consequence.text,
      outcome: (done.answer as { outcome: { text: string } }).outcome.text,
      ended_at: expect.any(Date),
      error: null,
    },
  ])
  await until('a page that watches the audit has the entry', () => heard.length > 1)
  expect(heard.at(-1)).toMatchObject({ data: { data: { rows: [{ visitor: 'ada <ada@example>', error: null }] } } })
})

test('an act that fails is recorded as failed, and an act that cannot be recorded is not done', async () => {
  const { url } = database
  await sql(url, 'delete from holdfast.audit')
  const holdfast = await open({ url })
  const lock = await holdfast.locks.acquire('kept')
  const pool = sqlPool({ connectionString: url })
  let refuses = 'pg_notify'
  const query = pool.query.bind(pool) as (...given: unknown[]) => Promise<{ rows: unknown[] }>
  const refusing = Object.assign(Object.create(pool) as pg.Pool, {
    query: async (given: { text: string }, values: unknown[]) => {
      if (given.text.includes(refuses)) throw Object.assign(new Error('not today'), { code: '42501' })
      return query(given, values)
    },
  })
  const base = await serve(board({ pool: refusing }))
  const params = { key: lock.keys[0]! }
  expect(await act(base, 'release-name', { params })).toMatchObject({
    status: 500,
    answer: { error: { code: 'PERMISSION_DENIED' } },
  })
  expect(await entries()).toMatchObject([
    { outcome: null, error: expect.stringContaining('not today'), ended_at: expect.any(Date) },
  ])
  refuses = 'insert into holdfast.audit'
  expect(await act(base, 'release-name', { params })).toMatchObject({ status: 500 })
  expect(await entries()).toHaveLength(1)
  expect(lock.signal.aborted).toBe(false)
  refuses = 'update holdfast.audit'
  expect(await act(base, 'release-name', { params })).toMatchObject({
    status: 200,
    answer: { outcome: { done: true } },
  })
  expect(await entries()).toMatchObject([{}, { outcome: null, error: null, ended_at: null }])
})

test('entries of the audit that are older than 90 days are deleted when an act is done', async () => {
  const { url } = database
  await sql(
    url,
    `delete from holdfast.audit;
    insert into holdfast.audit (at, visitor, act, subject, params, consequence)
    select now() - make_interval(days => days), 'ada', 'release-name', days::text, '{}', ''
    from unnest(array[1, 89, 91, 400]) as days`,
  )
  const lock = await (await open({ url })).locks.acquire('in the way')
  const base = await serve(board({ url }))
  expect((await act(base, 'release-name', { params: { key: lock.keys[0]! } })).status).toBe(200)
  expect((await entries()).map(({ subject }) => subject)).toEqual(['1', '89', expect.stringContaining('in the way')])
})

test('a redact hook that throws shows nothing of the payload', () => {
  const about = { what: 'job input', of: 'mail' } as const
  const redact = redactWith((payload, { of }) => {
    if (of === 'mail') return { ...(payload as object), to: '***' }
    throw new Error('unknown')
  })
  expect(redact({ to: 'ada', subject: 'hi' }, about)).toEqual({ to: '***', subject: 'hi' })
  expect(redact({ to: 'ada' }, { ...about, of: 'other' })).toBe('not shown: redact failed')
  expect(redactWith(undefined)('as it is', about)).toBe('as it is')
})
