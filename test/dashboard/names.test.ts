// Tests the data and the acts of the pages of names and limits against the database.
import { expect, test } from 'vitest'
import { hashedKey } from '../../src/base/index.js'
import { limitKeys } from '../../src/observe/index.js'
import { sql, until, untilRegistered } from '../setup/facts.js'
import { databaseUrl, openFleet } from '../setup/instances.js'
import { board, serve } from './fixture.js'

async function openOn(url: string) {
  const base = await serve(board({ url }))
  // biome-ignore lint/suspicious/noExplicitAny: the tests compare the JSON with what they expect
  const request = async (path: string, body?: object): Promise<any> => {
    const response = await fetch(`${base}/api/${path}`, {
      ...(body && { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    })
    return response.json()
  }
  return {
    see: async (view: string, params: Record<string, string> = {}) =>
      (await request(`view/${view}?${new URLSearchParams(params)}`)).data,
    preview: async (act: string, params: object) =>
      (await request(`act/${act}`, { params, preview: true })).consequence,
    act: async (act: string, params: object) => (await request(`act/${act}`, { params, reason: 'a test' })).outcome,
  }
}

test('names are shown with holders and waiters, and are searched, released, expired and broken', async () => {
  const url = await databaseUrl()
  const [a, b] = await openFleet(url, 2, { namespace: 'shop' })
  const { see, preview, act } = await openOn(url)
  const keyOf = (name: string) => hashedKey('shop', name).key
  expect(await see('names')).toMatchObject({ counts: { held: 0, leased: 0 }, locks: [], leases: [] })

  const mild = await a!.locks.acquire('Report:night')
  const hard = await a!.locks.acquire('report:day')
  const other = await a!.locks.acquire('other')
  const lease = await b!.leases.acquire('etl report')
  const waiting = b!.locks.acquire('report:day', { wait: '1m' })
  await untilRegistered(url, 'Report:night', 'report:day', 'other', 'etl report')
  await until('the waiter is shown', async () => (await see('names')).counts.waiters === 1)
  const found = await see('names', { namespace: 'shop', search: 'REPORT' })
  expect(found.locks.map(({ label }: { label: string }) => label)).toEqual(['report:day', 'Report:night'])
  expect(found.leases.map(({ label }: { label: string }) => label)).toEqual(['etl report'])
  expect((await see('names', { namespace: 'elsewhere' })).locks).toEqual([])

  const one = await see('name', { key: keyOf('report:day') })
  expect(one).toMatchObject({ label: 'report:day', namespace: 'shop', holding: 1, waiting: 1, lease: null })
  expect(one.holders[0].instance).toBe(a!.id)
  expect(one.waiters[0].instance).toBe(b!.id)

  // The mild way: the holder receives a request, and decides.
  expect(await preview('release-name', { key: keyOf('Report:night') })).toMatchObject({
    subject: 'lock Report:night',
    dangerous: false,
    text: expect.stringContaining(`${a!.name} to release the lock`),
  })
  expect(await act('release-name', { key: keyOf('Report:night') })).toEqual({
    done: true,
    text: expect.stringContaining(`${a!.name} to release "Report:night".`),
  })
  await until('the holder has received the request', () => mild.signal.aborted)
  await mild.release()
  expect(await act('release-name', { key: keyOf('Report:night') })).toMatchObject({ done: false })
  // A free name keeps its label.
  expect(await see('name', { key: keyOf('Report:night') })).toMatchObject({ label: 'Report:night', holding: 0 })

  expect(await preview('expire-lease', { key: keyOf('etl report') })).toMatchObject({
    dangerous: true,
    text: expect.stringContaining(`with its fence ${lease.fence} are rejected`),
  })
  expect(await act('expire-lease', { key: keyOf('etl report') })).toMatchObject({ done: true })
  await until('the lease is lost', () => lease.signal.aborted)
  expect(await act('expire-lease', { key: keyOf('etl report') })).toMatchObject({ done: false })

  // The hard way: the session ends, with everything that it holds.
  const consequence = await preview('break-lock', { key: keyOf('report:day') })
  expect(consequence).toMatchObject({
    dangerous: true,
    text: expect.stringContaining('To ask the holder to stop instead'),
  })
  expect(consequence.facts[0][1]).toContain('which also holds other')
  expect(await act('break-lock', { key: keyOf('report:day') })).toMatchObject({ done: true })
  await (await waiting).release()
  expect([hard.signal.aborted, other.signal.aborted]).toEqual([true, true])
  expect(await act('break-lock', { key: keyOf('report:day') })).toMatchObject({ done: false })

  expect(await sql(url, 'select act, subject from holdfast.audit where (outcome is not null) order by at')).toEqual(
    expect.arrayContaining([
      { act: 'release-name', subject: 'lock Report:night' },
      { act: 'break-lock', subject: 'lock report:day' },
    ]),
  )
})

test('the list of limits reports that it has not searched all limits', async () => {
  const url = await databaseUrl()
  const { see } = await openOn(url)
  expect(await see('limits')).toMatchObject({ rows: [], searchedRows: null })
  await sql(
    url,
    `insert into holdfast.limit_state (key, namespace, name)
     select number, 'shop', 'idle:' || number from generate_series(1, 20001) as number`,
  )
  const [holdfast] = await openFleet(url, 1, { namespace: 'shop' })
  await holdfast!.limits.acquire('export', { max: 1 })
  expect(await see('limits')).toMatchObject({ isMore: false, searchedRows: 20_000 })
})

test('limits are shown with holders and waiters, and are reset', async () => {
  const url = await databaseUrl()
  const [a, b] = await openFleet(url, 2, { namespace: 'shop' })
  const { see, preview, act } = await openOn(url)
  const permit = await a!.limits.acquire('export:42', { max: 2, weight: 2 })
  const waiting = b!.limits.acquire('export:42', { max: 2, wait: '1m' })
  await b!.limits.consume('mail', { rate: '10/m', cost: 4 })
  const seen = await until('the second call waits', async () => {
    const { rows } = await see('limits')
    return rows[0]?.waiting === 1 && rows
  })
  expect(seen).toMatchObject([
    { name: 'export:42', kind: 'permits', state: 'full', inUse: 2, max: 2, holders: 1 },
    { name: 'mail', kind: 'rate', state: 'spent' },
  ])
  expect((await see('limits', { search: 'ma' })).rows).toHaveLength(1)
  const params = { namespace: 'shop', name: 'export:42' }
  expect(await see('limit', params)).toMatchObject({
    holding: 1,
    holders: [{ instance: a!.id, weight: 2 }],
    waiters: [{ instance: b!.id, weight: 1 }],
  })
  expect(await preview('reset-limit', params)).toMatchObject({
    dangerous: true,
    text: expect.stringContaining('Revokes 1 permit for "export:42"'),
    facts: [[expect.stringContaining(a!.name), expect.stringContaining('weight 2 of 2')]],
  })
  expect(await act('reset-limit', params)).toEqual({ done: true, text: 'Revoked 1 permit for "export:42".' })
  await until('the holder has lost the permit', () => permit.signal.aborted)
  await (await waiting).release()
  expect(await act('reset-limit', params)).toMatchObject({ done: false })
  expect(await act('reset-limit', { namespace: 'shop', name: 'mail' })).toMatchObject({
    done: true,
    text: 'Reset the rate limit of "mail".',
  })
  const { rate } = limitKeys('shop', 'mail')
  expect(await sql(url, 'select from holdfast.rate where key = $1', [rate])).toEqual([])
})
