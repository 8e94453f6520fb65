// Tests who has access, what is refused, and the headers of every response.
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { ActName, Visitor } from '../../src/dashboard/index.js'
import { dashboard } from '../../src/dashboard/index.js'
import { DatabaseUnreachableError } from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { board, type RawResponse, raw, serve } from './fixture.js'

let database: FreshDatabase
beforeAll(async () => {
  database = await freshDatabase()
})
afterAll(() => database.drop())

const codeOf = ({ status, text }: RawResponse) => {
  const [, code] = /^\{"error":\{"code":"(\w+)"/.exec(text) ?? []
  return code ? `${status} ${code}` : status
}
const json = { 'content-type': 'application/json' }

test('without auth, the dashboard only serves this machine, under its own name and without a proxy', async () => {
  const base = await serve(board({ url: database.url }))
  const page = (headers: Record<string, string>) => raw(base, { headers })
  const me = (headers: Record<string, string>) => raw(`${base}/api/me`, { headers })
  for (const host of ['localhost', 'LOCALHOST:3000', '127.0.0.1:80', '127.1.2.3', '[::1]:7777', 'fleet.localhost:1']) {
    expect([host, (await page({ host })).status]).toEqual([host, 200])
  }
  const hosts = [
    'evil.example',
    'localhost.evil.example',
    '127.0.0.1.evil.example',
    'localhost.',
    '10.0.0.1',
    '0.0.0.0',
  ]
  for (const host of hosts) {
    const refused = await page({ host })
    expect([host, refused.status]).toEqual([host, 403])
    expect(refused.text).toContain('dashboard({ auth })')
    expect([host, codeOf(await me({ host }))]).toEqual([host, '403 AUTH_REQUIRED'])
  }
  for (const name of ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip', 'via']) {
    expect([name, codeOf(await me({ [name]: '127.0.0.1' }))]).toEqual([name, '403 AUTH_REQUIRED'])
  }
  // A proxy that does not identify itself: the browser sends the origin that it knows.
  const public_ = { origin: 'https://fleet.example', 'sec-fetch-site': 'same-origin' }
  expect(
    codeOf(await raw(`${base}/api/act/release-name`, { method: 'POST', headers: { ...json, ...public_ }, body: '{}' })),
  ).toBe('403 AUTH_REQUIRED')
})

test('without auth, fetch must be given the remote address of a request', async () => {
  const made = board({ url: database.url })
  const send = async (from?: { remoteAddress?: string }) =>
    (await made.fetch(new Request('http://localhost:3000/fleet/api/sql/audit'), from)).status
  expect(await send({ remoteAddress: '127.0.0.1' })).toBe(200)
  expect(await send({ remoteAddress: '::ffff:127.0.0.1' })).toBe(200)
  for (const remoteAddress of ['10.0.0.5', '::ffff:10.0.0.5', '127.0.0.1.evil.example', '', 'localhost', '::2']) {
    expect([remoteAddress, await send({ remoteAddress })]).toEqual([remoteAddress, 403])
  }
  const response = await made.fetch(new Request('http://localhost:3000/fleet/api/me'))
  expect([response.status, await response.json()]).toMatchObject([
    403,
    { error: { message: expect.stringContaining('is unknown'), hint: expect.stringContaining('remoteAddress') } },
  ])
})

test('a visitor whom auth does not accept sees nothing, and an error in auth gives no access', async () => {
  const visitors: Record<string, () => unknown> = {
    ada: () => ({ name: 'ada' }),
    nobody: () => null,
    late: async () => undefined,
    broken: () => {
      throw new Error('password=s3cret is wrong')
    },
    unreachable: () => {
      throw new DatabaseUnreachableError('sessions_db at 10.1.2.3 is unreachable as s3cret')
    },
    nameless: () => ({ rights: 'all' }),
    everything: () => ({ name: 'ada', rights: 'everything' }),
    mistyped: () => ({ name: 'ada', rights: ['release-nam'] }),
    truthy: () => true,
  }
  const auth = (request: Request) => visitors[request.headers.get('x-user') ?? 'nobody']!() as Visitor
  const base = await serve(board({ url: database.url, auth }))
  const send = (user: string, path: string) => raw(base + path, { headers: { host: 'fleet.example', 'x-user': user } })
  expect((await send('ada', '')).status).toBe(200)
  for (const path of ['', '/assets/index.js', '/api/me', '/api/view/audit', '/api/live?view=audit', '/api/sql/audit']) {
    expect([path, (await send('nobody', path)).status]).toEqual([path, 403])
    expect([path, (await send('late', path)).status]).toEqual([path, 403])
    for (const user of ['broken', 'unreachable', 'nameless', 'everything', 'mistyped', 'truthy']) {
      const { status, text } = await send(user, path)
      expect([user, path, status]).toEqual([user, path, 500])
      expect(text).not.toContain('s3cret')
    }
  }
  expect((await send('mistyped', '/api/me')).text).toContain('Did you mean')
})

test('each visitor has only the rights that auth returns, and no visitor has rights on a read-only dashboard', async () => {
  const rights: Record<string, Visitor['rights']> = { reader: undefined, some: ['reset-limit' as ActName], all: 'all' }
  const auth = (request: Request) => {
    const name = request.headers.get('x-user')!
    return { name, rights: rights[name] }
  }
  const [open, closed] = [board({ url: database.url, auth }), board({ url: database.url, auth, readOnly: true })]
  const act = async (made: typeof open, user: string) => {
    const headers = { ...json, 'x-user': user }
    const body = JSON.stringify({ params: { key: '1' }, preview: true })
    const response = await made.fetch(new Request('http://x/api/act/release-name', { method: 'POST', headers, body }))
    const meResponse = await made.fetch(new Request('http://x/api/me', { headers: { 'x-user': user } }))
    const me = (await meResponse.json()) as { rights: string[] }
    return [
      response.status,
      ((await response.json()) as { error?: { code: string } }).error?.code,
      me.rights.includes('release-name'),
    ]
  }
  expect(await act(open, 'reader')).toEqual([403, 'FORBIDDEN', false])
  expect(await act(open, 'some')).toEqual([403, 'FORBIDDEN', false])
  expect(await act(open, 'all')).toEqual([200, undefined, true])
  expect(await act(closed, 'all')).toEqual([403, 'READ_ONLY', false])
})

test('requests from other sites and invalid requests are refused', async () => {
  const base = await serve(board({ url: database.url, auth: () => ({ name: 'ada', rights: 'all' }) }))
  const get = async (path: string, headers: Record<string, string> = {}) => codeOf(await raw(base + path, { headers }))
  const post = async (body: string, headers: Record<string, string> = json, path = '/api/act/release-name') =>
    codeOf(await raw(base + path, { method: 'POST', headers, body }))
  const valid = JSON.stringify({ params: { key: '42' }, preview: true })
  const { host } = new URL(base)

  for (const site of ['cross-site', 'same-site', 'nonsense']) {
    for (const path of ['/api/me', '/api/view/audit', '/api/sql/audit', '/api/live?view=audit']) {
      expect([path, await get(path, { 'sec-fetch-site': site })]).toEqual([path, '403 CROSS_SITE'])
    }
    expect(await post(valid, { ...json, 'sec-fetch-site': site })).toBe('403 CROSS_SITE')
    // A link on another site may open the page.
    expect(await get('', { 'sec-fetch-site': site })).toBe(200)
  }
  expect(await post(valid, { ...json, 'sec-fetch-site': 'none' })).toBe('403 CROSS_SITE')
  for (const origin of [
    'null',
    'https://evil.example',
    `http://${host}0`,
    'http://127.0.0.1',
    `http://${host}.evil.example`,
  ]) {
    expect([origin, await post(valid, { ...json, origin })]).toEqual([origin, '403 CROSS_SITE'])
  }
  expect(await post(valid, { ...json, origin: `http://${host}` })).toBe(200)
  expect(await post(valid, { ...json, origin: `https://${host}`, 'sec-fetch-site': 'same-origin' })).toBe(200)
  expect(await post(valid, { ...json, origin: 'https://fleet.example', host: 'fleet.example:443' })).toBe(
    '403 CROSS_SITE',
  )

  for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data', 'application/jsonp']) {
    expect([type, await post(valid, { 'content-type': type })]).toEqual([type, '415 NOT_JSON'])
  }
  expect(await post(valid, {})).toBe('415 NOT_JSON')
  expect(await post(valid, { 'content-type': 'Application/JSON; charset=utf-8' })).toBe(200)
  expect(await post('{"params":')).toBe('400 NOT_JSON')
  // The server reads each body to its end, so that the client receives the response.
  const large = 'x'.repeat(5_000_000)
  expect(await post(large)).toBe('413 TOO_LARGE')
  expect(await post(large, { ...json, 'sec-fetch-site': 'cross-site' })).toBe('403 CROSS_SITE')
  expect(await post(JSON.stringify({ params: { key: '42' }, reason: 'x'.repeat(131_072) }))).toBe('413 TOO_LARGE')
  for (const body of ['null', '7', '[]', '{"params":null}', '{"params":{}}', '{"params":{"key":42}}', '{"parms":{}}']) {
    expect([body, await post(body)]).toEqual([body, '400 USAGE'])
  }
  const bodies = [
    '{"params":{"key":"42"},"preview":"yes"}',
    '{"params":{"key":"99999999999999999999"}}',
    '{"params":{"key":"42","__proto__":{}}}',
  ]
  for (const body of [...bodies, JSON.stringify({ params: { key: '42' }, reason: 'x'.repeat(1_001) })]) {
    expect([body, await post(body)]).toEqual([body, '400 USAGE'])
  }
  for (const name of ['release', '__proto__', 'constructor', 'toString', '%3Cscript%3E', '%', '%00']) {
    expect([name, await post(valid, json, `/api/act/${name}`)]).toEqual([name, '400 USAGE'])
    expect([name, await get(`/api/view/${name}`)]).toEqual([name, '400 USAGE'])
    expect([name, await get(`/api/live?view=${name}`)]).toEqual([name, '400 USAGE'])
  }
  const searches = [
    'nothing=1',
    'namespace=a&namespace=b',
    `namespace=${'x'.repeat(2_001)}`,
    'namespace=a%00b',
    '__proto__=1',
    'toString=1',
  ]
  for (const search of [...searches, Array.from({ length: 17 }, (_, at) => `p${at}=1`).join('&')]) {
    expect([search, await get(`/api/view/overview?${search}`)]).toEqual([search, '400 USAGE'])
  }
  expect(await get('/api/live')).toBe('400 USAGE')
  expect(await get(`/api/live?${'view=audit&'.repeat(33)}`)).toBe('400 USAGE')

  for (const method of ['PUT', 'DELETE', 'PATCH', 'OPTIONS', 'POST']) {
    for (const path of ['', '/api/me', '/api/view/audit', '/assets/index.js']) {
      expect([method, path, (await raw(base + path, { method })).status]).toEqual([method, path, 405])
    }
  }
  expect(await get('/api/act/release-name')).toBe('405 METHOD_NOT_ALLOWED')
  for (const name of ['nothing.js', '..%2f..%2findex.js', '%2e%2e%2findex.html', '__proto__', 'index.html']) {
    expect([name, await get(`/assets/${name}`)]).toEqual([name, 404])
  }
})

test('names and paths are never HTML, and every response has its headers', async () => {
  const base = await serve(board({ url: database.url }), '')
  const paths = [
    '/%22%3E%3Cscript%3Ealert(1)%3C/script%3E',
    "/'onload='alert(1)",
    '//evil.example/fleet',
    '/javascript:alert(1)',
  ]
  for (const path of paths) {
    const { status, text } = await raw(`${base}${path}`)
    expect([path, status]).toEqual([path, 200])
    expect(text).not.toMatch(/<script>|onload='/)
    const found = new URL(/<base href="([^"]*)"/.exec(text)![1]!.replaceAll('&#39;', "'"), `${base}/`)
    expect(found.origin).toBe(base)
  }
  for (const path of ['/', '/assets/none.js', '/api/me', '/api/view/none', '/api/sql/audit', '/api/act/x']) {
    const { headers } = await raw(base + path)
    expect(headers['content-security-policy']).toBe(
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'",
    )
    expect(headers).toMatchObject({
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cross-origin-opener-policy': 'same-origin',
      'cross-origin-resource-policy': 'same-origin',
      'cache-control': 'no-store',
    })
    expect(headers).not.toHaveProperty('access-control-allow-origin')
  }
})

test('dashboard() validates its options', () => {
  const { url } = database
  const make = (options: object) => () => dashboard(options)
  expect(make({})).toThrow('Expected exactly one of url and pool, got none')
  expect(make({ url, pool: { connect() {}, query() {}, on() {}, options: {} } })).toThrow('got both')
  expect(make({ url: 'mysql://x' })).toThrow('Expected url')
  expect(make({ url, auth: 'ada' })).toThrow('Expected auth to be a function that returns the visitor or null')
  expect(make({ url, readonly: true })).toThrow('did you mean "readOnly"?')
  expect(make({ url, schema: "it's" })).toThrow('Expected schema')
  expect(make({ url, databases: { eu: { url } } })).toThrow('Expected either databases, or url or pool, got both')
  expect(make({ databases: {} })).toThrow('Expected databases to be an object that maps 1 to 24 names to databases')
  expect(make({ databases: { 'e:u': { url } } })).toThrow('Expected the name of a database to have 1 to 40 letters')
  expect(make({ databases: { eu: {} } })).toThrow('exactly one of url and pool for the database eu, got none')
  expect(make({ databases: { eu: { uri: url } } })).toThrow('databases.eu')
})
