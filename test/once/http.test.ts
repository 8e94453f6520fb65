import { createHash, randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { PassThrough } from 'node:stream'
import { buffer, text } from 'node:stream/consumers'
import express from 'express'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { deliveryOf, idempotent, webhooks } from '../../src/http/index.js'
import { ResponseCapture } from '../../src/http/response-capture.js'
import { Holdfast, UsageError } from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught, sql, until, within } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { countEffects, effect, gate, makeEffects } from './effects.js'
import { event, type Framework, frameworks, listen, post, type ReceivedResponse, type Service } from './servers.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
  await makeEffects(fresh.url)
})
afterAll(() => fresh.drop())

/** Returns the parts of a response that a replay repeats, without the headers that differ in each response. */
function replayable({ headers, ...rest }: ReceivedResponse) {
  const {
    date: _,
    connection: __,
    'keep-alive': ___,
    'transfer-encoding': ____,
    'idempotent-replayed': _____,
    'content-length': ______,
    ...others
  } = headers
  // Large bodies are compared by their hash, because vitest compares buffers byte by byte, which takes half a minute.
  const body = rest.body.length < 1_000 ? rest.body.toString() : createHash('sha256').update(rest.body).digest('hex')
  return { ...rest, body, headers: others }
}

/** Returns the parsed body of the object that a framework passes to callbacks. */
async function bodyOf(given: {
  body?: unknown
  headers: Record<string, string>
  req?: { json(): Promise<unknown> }
  json?(): Promise<unknown>
}): Promise<Record<string, unknown>> {
  const parsed = given.req ? await given.req.json() : given.json ? await given.json() : given.body
  return parsed as Record<string, unknown>
}

const json = { 'content-type': 'application/json' }

describe.each(Object.entries(frameworks))('%s', (name, framework: Framework) => {
  const mismatched: string[] = []
  /** Instances that the tests of the framework share. Each service of a test has its own instance, like services in different processes. */
  const instances: Holdfast[] = []
  let used = 0
  beforeEach(() => {
    used = 0
  })
  afterAll(() => Promise.all(instances.map((instance) => instance.close())))

  const start = async (service: Service) => {
    const place = used++
    if (instances[place] === undefined) {
      const opened = await Holdfast.open({ url: fresh.url, namespace: name, log: false })
      opened.on('delivery.mismatched', ({ key }) => mismatched.push(key))
      instances[place] = opened
    }
    return framework(instances[place].once, service)
  }

  describe('webhooks', () => {
    test('a second delivery gets the first response, and the effect happens once', async () => {
      const bodies: string[] = []
      const url = await start({
        async handle(body, tx) {
          bodies.push(body)
          const { id } = JSON.parse(body)
          await effect(tx!, `${name} ${id}`)
          return { status: 201, headers: [['content-type', 'application/json']], body: `{"handled":"${id}"}` }
        },
      })
      const first = await event(url, 'e1', { more: 'ünïcode' })
      expect(first).toMatchObject({ status: 201, statusText: 'Created' })
      expect(first.headers['content-type']).toMatch('application/json')
      expect(first.body.toString()).toBe('{"handled":"e1"}')
      expect(first.headers['idempotent-replayed']).toBeUndefined()
      const again = await event(url, 'e1', { more: 'ünïcode' })
      expect(replayable(again)).toEqual(replayable(first))
      expect(again.headers['idempotent-replayed']).toBe('true')
      expect(bodies).toEqual(['{"id":"e1","more":"ünïcode"}'])
      expect(await countEffects(fresh.url, `${name} e1`)).toBe(1)
    })

    test('a duplicate gets 202 while the event is in flight, or the first response if it waits', async () => {
      const opening = gate()
      const started = gate()
      const handle = async () => {
        started.open()
        await opening.opened
        return { body: 'first' }
      }
      const [impatient, patient] = [await start({ handle }), await start({ handle, webhooks: { wait: '10s' } })]
      const first = event(impatient, 'e2')
      await started.opened
      const duplicate = await event(impatient, 'e2')
      expect(duplicate.status).toBe(202)
      expect(duplicate.headers).toMatchObject({ 'retry-after': '1', 'content-type': 'application/json' })
      expect(duplicate.body.toString()).toBe('{"status":"in-progress"}')
      const waiting = event(patient, 'e2')
      opening.open()
      for (const response of await Promise.all([first, waiting])) expect(response.body.toString()).toBe('first')
    })

    test('another body with a known key gets 422, is not handled, and is reported by an event', async () => {
      const bodies: string[] = []
      const url = await start({
        handle(body) {
          bodies.push(JSON.parse(body).amount)
          return { body: 'handled' }
        },
      })
      await event(url, 'm1', { amount: 1 })
      mismatched.length = 0
      const other = await event(url, 'm1', { amount: 2 })
      expect(other.status).toBe(422)
      expect(other.headers['idempotent-replayed']).toBeUndefined()
      expect(other.headers['content-type']).toBe('application/problem+json')
      expect(JSON.parse(other.body.toString())).toEqual({
        type: 'about:blank',
        title: 'A different event has the same key',
        status: 422,
        detail: 'An event with the same key but a different body was delivered earlier. This event was not handled.',
      })
      expect(mismatched).toEqual(['event:m1'])
      expect((await event(url, 'm1', { amount: 1 })).headers['idempotent-replayed']).toBe('true')
      expect(bodies).toEqual([1])
    })

    test('another body gets 422 while the first event is in flight, in the same process and in another', async () => {
      const opening = gate()
      const started = gate()
      const handle = async () => {
        started.open()
        await opening.opened
        return { body: 'first' }
      }
      const [here, elsewhere] = [await start({ handle }), await start({ handle, webhooks: { wait: '10s' } })]
      const first = event(here, 'm2', { amount: 1 })
      await started.opened
      expect((await event(here, 'm2', { amount: 2 })).status).toBe(422)
      expect((await event(elsewhere, 'm2', { amount: 2 })).status).toBe(422)
      expect((await event(here, 'm2', { amount: 1 })).status).toBe(202)
      opening.open()
      expect((await first).body.toString()).toBe('first')
    })

    test('one of two bodies that arrive at the same time with one key is handled, and the other gets 422', async () => {
      const url = await start({ handle: (body) => ({ body: String(JSON.parse(body).amount) }) })
      const responses = await Promise.all([1, 2, 1, 2].map((amount) => event(url, 'm3', { amount })))
      const refused = responses.filter(({ status }) => status === 422)
      expect(refused.length).toBe(2)
      const handled = new Set(responses.filter(({ status }) => status === 200).map(({ body }) => body.toString()))
      expect(handled.size).toBe(1)
    })

    // If the parsers run after the webhook, callbacks have no parsed body.
    if (name !== 'Express, parsers behind') {
      test('the result of fingerprint is compared instead of the whole body', async () => {
        const url = await start({
          handle: () => ({ body: 'handled' }),
          webhooks: {
            fingerprint: async (given) => {
              const { tries: _, ...rest } = await bodyOf(given)
              return JSON.stringify(rest)
            },
          },
        })
        await event(url, 'm4', { amount: 1, tries: 1 })
        expect((await event(url, 'm4', { amount: 1, tries: 2 })).headers['idempotent-replayed']).toBe('true')
        expect((await event(url, 'm4', { amount: 2, tries: 3 })).status).toBe(422)
      })
    }

    test('an event without an id is an error, and no event is handled', async () => {
      let handled = 0
      const url = await start({
        handle() {
          handled++
          return { body: 'handled' }
        },
        webhooks: { key: () => `event:${undefined}` },
      })
      for (const id of ['m5', 'm6']) expect((await event(url, id)).status).toBe(500)
      expect(handled).toBe(0)
    })

    test('a duplicate gets the status of the option inFlight while the event is in flight', async () => {
      const opening = gate()
      const url = await start({
        handle: () => opening.opened.then(() => ({ body: 'first' })),
        webhooks: { inFlight: 503 },
      })
      const first = event(url, 'e3')
      await until('the first event is in flight', async () => (await event(url, 'e3')).status === 503)
      opening.open()
      await first
    })

    test.each([
      ['throws', () => Promise.reject(new Error('broken'))],
      ['responds with 503', () => ({ status: 503, body: 'not now' })],
    ])('an event whose handler %s is handled again at the next delivery', async (how, fail) => {
      let tries = 0
      const url = await start({
        async handle(_, tx) {
          await effect(tx!, `${name} ${how}`)
          return ++tries < 3 ? fail() : { body: 'done' }
        },
      })
      expect((await event(url, how)).status).toBeGreaterThanOrEqual(500)
      expect((await event(url, how)).status).toBeGreaterThanOrEqual(500)
      expect(await countEffects(fresh.url, `${name} ${how}`)).toBe(0)
      expect((await event(url, how)).body.toString()).toBe('done')
      expect((await event(url, how)).headers['idempotent-replayed']).toBe('true')
      expect(await countEffects(fresh.url, `${name} ${how}`)).toBe(1)
      expect(tries).toBe(3)
    })

    test('a response with status 400 is replayed, and its effect is rolled back', async () => {
      let tries = 0
      const url = await start({
        async handle(_, tx) {
          tries++
          await effect(tx!, `${name} refused`)
          return { status: 400, body: 'no such invoice' }
        },
      })
      const first = await event(url, 'e4')
      const again = await event(url, 'e4')
      expect(replayable(again)).toEqual(replayable(first))
      expect(again).toMatchObject({ status: 400, body: Buffer.from('no such invoice') })
      expect(tries).toBe(1)
      expect(await countEffects(fresh.url, `${name} refused`)).toBe(0)
    })

    test.each<[string, Awaited<ReturnType<Service['handle']>>]>([
      ['425', { status: 425 }],
      ['429', { status: 429 }],
      ['409 and retry-after', { status: 409, headers: [['Retry-After', '1']] }],
    ])('a response with status %s is not recorded, and its effect is rolled back', async (what, busy) => {
      let tries = 0
      const url = await start({
        async handle(_, tx) {
          await effect(tx!, `${name} ${what}`)
          return ++tries === 1 ? busy : { status: 202, headers: [['retry-after', '1']], body: 'accepted' }
        },
      })
      expect((await event(url, what)).status).toBe(busy.status)
      for (let delivery = 2; delivery <= 3; delivery++) {
        expect(await event(url, what)).toMatchObject({ status: 202, body: Buffer.from('accepted') })
      }
      expect(tries).toBe(2)
      expect(await countEffects(fresh.url, `${name} ${what}`)).toBe(1)
    })

    test('one of 20 concurrent duplicates is handled', async () => {
      const url = await start({
        async handle(_, tx) {
          await effect(tx!, `${name} burst`)
          return { body: 'handled' }
        },
        webhooks: { wait: '10s' },
      })
      const responses = await Promise.all(Array.from({ length: 20 }, () => event(url, 'e5')))
      expect(responses.map(({ body }) => body.toString())).toEqual(Array(20).fill('handled'))
      expect(responses.filter(({ headers }) => headers['idempotent-replayed']).length).toBe(19)
      expect(await countEffects(fresh.url, `${name} burst`)).toBe(1)
    })

    test('an event is handled although its client disconnects, and the retry gets the response', async () => {
      const opening = gate()
      const started = gate()
      const url = await start({
        async handle() {
          started.open()
          await opening.opened
          return { body: 'handled without the client' }
        },
        webhooks: { wait: '10s' },
      })
      const abort = new AbortController()
      const gone = fetch(`${url}/hook`, {
        method: 'POST',
        body: '{"id":"e6"}',
        headers: { ...json, 'x-event-id': 'e6' },
        signal: abort.signal,
      })
      gone.catch(() => {})
      await started.opened
      abort.abort()
      await caught(Error, gone)
      const retry = event(url, 'e6')
      opening.open()
      expect((await within(10_000, 'the retry', retry)).body.toString()).toBe('handled without the client')
    })
  })

  describe('Idempotency-Key', () => {
    const key = (value: string, more: Record<string, string> = {}) => ({
      ...json,
      'idempotency-key': `"${value}"`,
      ...more,
    })

    test('a request whose key is missing or not a string gets 400 with a problem document', async () => {
      const url = await start({
        handle: () => ({ body: 'handled' }),
        idempotent: { docs: 'https://docs.example/keys' },
      })
      const missing = await post(`${url}/pay`, '{}', json)
      expect(missing.status).toBe(400)
      expect(missing.headers['content-type']).toBe('application/problem+json')
      expect(JSON.parse(missing.body.toString())).toEqual({
        type: 'https://docs.example/keys',
        title: 'Idempotency-Key is missing',
        status: 400,
        detail: expect.stringContaining('Send a header such as Idempotency-Key: "8e03978e'),
      })
      for (const bad of ['', 'bare', '"', '""', '"a', '"a", "b"', '"a"b"', `"${'x'.repeat(256)}"`, '"\\x"']) {
        const { status, body } = await post(`${url}/pay`, '{}', { ...json, 'idempotency-key': bad })
        expect([bad, status]).toEqual([bad, 400])
        expect(JSON.parse(body.toString()).title).toMatch(/^Idempotency-Key is (not valid|missing)$/)
      }
    })

    test('keys are parsed as structured header strings or bare words', async () => {
      let count = 0
      const url = await start({ handle: () => ({ body: String(++count) }), idempotent: { bare: true } })
      const bodies: string[] = []
      for (const good of [
        '"a b"',
        '"a\\"b"',
        '"a\\\\b"',
        '"parameter";x=1',
        'bare-one',
        '"bare-one"',
        ' "parameter" ',
      ]) {
        bodies.push((await post(`${url}/pay`, '{}', { ...json, 'idempotency-key': good })).body.toString())
      }
      expect(bodies).toEqual(['1', '2', '3', '4', '5', '5', '4'])
    })

    test('a second request gets the first response, or 422 if its body, path or method differs', async () => {
      let count = 0
      const url = await start({ handle: () => ({ status: 201, body: String(++count) }) })
      const first = await post(`${url}/pay`, '{"amount":1}', key('k1'))
      expect(first).toMatchObject({ status: 201, body: Buffer.from('1') })
      const again = await post(`${url}/pay`, '{"amount":1}', key('k1'))
      expect(replayable(again)).toEqual(replayable(first))
      expect(again.headers['idempotent-replayed']).toBe('true')
      const others = [
        await post(`${url}/pay`, '{"amount":2}', key('k1')),
        await post(`${url}/pay?a=b`, '{"amount":1}', key('k1')),
        await post(`${url}/pay`, '{"amount":1}', key('k1'), 'PATCH'),
      ]
      for (const other of others) {
        expect(other.status).toBe(422)
        expect(other.headers['content-type']).toBe('application/problem+json')
        expect(JSON.parse(other.body.toString())).toMatchObject({
          type: 'about:blank',
          title: 'Idempotency-Key is already used',
          status: 422,
        })
      }
      expect(count).toBe(1)
    })

    test('two scopes with the same key are independent', async () => {
      let count = 0
      const url = await start({ handle: () => ({ body: String(++count) }) })
      const pay = async (user: string, value: string) =>
        (await post(`${url}/pay`, '{}', key(value, { 'x-user': user }))).body.toString()
      expect(await pay('ann', 'k2')).toBe('1')
      expect(await pay('bob', 'k2')).toBe('2')
      expect(await pay('ann', 'k2')).toBe('1')
      // A scope that contains a separator does not reach the keys of another scope.
      expect(await pay('ann/k', '2')).toBe('3')
      expect(await pay('ann', 'k/2')).toBe('4')
      expect(await pay('x'.repeat(1_000), 'k2')).toBe('5')
      expect(await pay('x'.repeat(1_001), 'k2')).toBe('6')
    })

    test('a duplicate gets 409 while the request is in flight', async () => {
      const opening = gate()
      const url = await start({ handle: () => opening.opened.then(() => ({ body: 'first' })) })
      const first = post(`${url}/pay`, '{}', key('k3'))
      const conflict = await until('the first request is in flight', async () => {
        const response = await post(`${url}/pay`, '{}', key('k3'))
        return response.status === 409 ? response : undefined
      })
      expect(conflict.headers).toMatchObject({ 'retry-after': '1', 'content-type': 'application/problem+json' })
      expect(JSON.parse(conflict.body.toString()).title).toBe('A request is outstanding for this Idempotency-Key')
      opening.open()
      expect((await first).body.toString()).toBe('first')
    })

    test('a request without a key or with another method is handled each time if required is false', async () => {
      let count = 0
      const url = await start({ handle: () => ({ body: String(++count) }), idempotent: { required: false } })
      expect((await post(`${url}/pay`, '{}', json)).body.toString()).toBe('1')
      expect((await post(`${url}/pay`, '{}', json)).body.toString()).toBe('2')
      expect((await post(`${url}/pay`, '{}', key('k4'), 'PUT')).body.toString()).toBe('3')
      expect((await post(`${url}/pay`, '{}', key('k4'), 'PUT')).body.toString()).toBe('4')
      expect((await post(`${url}/pay`, '{}', key('k4'))).body.toString()).toBe('5')
      expect((await post(`${url}/pay`, '{}', key('k4'))).body.toString()).toBe('5')
    })
  })

  const bytes = randomBytes(5_000_000)
  test.each<[string, Awaited<ReturnType<Service['handle']>>]>([
    ['an empty response', { status: 204 }],
    ['an empty body', { body: '' }],
    [
      'cookies',
      {
        headers: [
          ['set-cookie', 'a=1; Path=/'],
          ['set-cookie', 'b=2, and more; HttpOnly'],
        ],
        body: 'x',
      },
    ],
    [
      'headers',
      {
        status: 418,
        headers: [
          ['X-Mixed-Case', 'kept'],
          ['content-type', 'text/plain; charset=latin1'],
          ['etag', '"1"'],
          ['location', '/a'],
        ],
        body: 'é',
      },
    ],
    ['a redirect', { status: 303, headers: [['location', '/elsewhere?a=b']] }],
    ['5 MB of bytes', { headers: [['content-type', 'application/octet-stream']], body: bytes }],
    [
      '5 MB in chunks',
      {
        headers: [['content-type', 'image/png']],
        pieces: Array.from({ length: 50 }, (_, i) => bytes.subarray(i * 100_000, (i + 1) * 100_000)),
      },
    ],
  ])('%s is replayed exactly', async (what, expected) => {
    const url = await start({ handle: () => expected })
    const pay = () =>
      post(`${url}/pay`, what, { 'content-type': 'text/plain', 'idempotency-key': '"exactly"', 'x-user': what })
    const payWithoutRedirect = async () => {
      const init = { method: 'POST', body: what, redirect: 'manual' as const }
      const response = await fetch(`${url}/pay`, {
        ...init,
        headers: { 'content-type': 'text/plain', 'idempotency-key': '"exactly"', 'x-user': what },
      })
      return { status: response.status, location: response.headers.get('location') }
    }
    if (expected.status === 303) {
      expect(await payWithoutRedirect()).toEqual({ status: 303, location: '/elsewhere?a=b' })
      expect(await payWithoutRedirect()).toEqual({ status: 303, location: '/elsewhere?a=b' })
      return
    }
    const [first, again] = [await pay(), await pay()]
    expect(again.headers['idempotent-replayed']).toBe('true')
    expect(replayable(again)).toEqual(replayable(first))
    expect(first.status).toBe(expected.status ?? 200)
    if (expected.body !== undefined) expect(first.body.equals(Buffer.from(expected.body as string))).toBe(true)
    if (expected.pieces) expect(first.body.equals(bytes)).toBe(true)
    expect(first.cookies).toEqual(
      (expected.headers ?? []).filter(([name]) => name === 'set-cookie').map(([, value]) => value),
    )
    const otherHeaders = (expected.headers ?? []).filter(([name]) => name !== 'set-cookie')
    for (const [header, value] of otherHeaders) expect(again.headers[header.toLowerCase()]).toBe(value)
  })

  test('a large request body is read by the fingerprint and by the handler', async () => {
    const body = 'x'.repeat(3_000_000)
    const lengths: number[] = []
    const url = await start({
      handle(text) {
        lengths.push(text.length)
        return { body: 'ok' }
      },
    })
    const headers = { 'content-type': 'text/plain', 'idempotency-key': '"large"' }
    expect((await post(`${url}/pay`, body, headers)).status).toBe(200)
    expect((await post(`${url}/pay`, body, headers)).headers['idempotent-replayed']).toBe('true')
    expect((await post(`${url}/pay`, `${body}.`, headers)).status).toBe(422)
    expect(lengths).toEqual([3_000_000])
  })

  test('a response that cannot be committed is not sent', async () => {
    await sql(
      fresh.url,
      `create table if not exists parent (id integer primary key);
       create table if not exists child (parent integer references parent deferrable initially deferred)`,
    )
    let tries = 0
    const url = await start({
      async handle(_, tx) {
        if (tries++ === 0) await tx!.query('insert into child values (1)')
        return { status: 201, headers: [['set-cookie', 'secret=1']], body: 'done' }
      },
    })
    const first = await event(url, 'not committed')
    expect(first.status).toBeGreaterThanOrEqual(500)
    expect(first.body.toString()).not.toBe('done')
    expect(first.cookies).toEqual([])
    const again = await event(url, 'not committed')
    expect(again).toMatchObject({ status: 201, cookies: ['secret=1'] })
    expect(tries).toBe(2)
  })
})

test('the response that one framework recorded is replayed by another', async () => {
  const { once } = await open({ url: fresh.url, namespace: 'across' })
  const first = { status: 201, headers: [['x-by', 'the first']] as [string, string][], body: 'first' }
  const handlers = Object.values(frameworks).map((framework, at) =>
    framework(once, { handle: () => (at === 0 ? first : { body: 'second' }) }),
  )
  for (const url of await Promise.all(handlers)) {
    const response = await event(url, 'across')
    expect(response).toMatchObject({ status: 201, body: Buffer.from('first') })
    expect(response.headers['x-by']).toBe('the first')
  }
})

describe('invalid input', () => {
  test.each<[string, (once: never) => unknown, string]>([
    ['no key', (once) => webhooks(once, {} as never), "Expected key to be a function that returns the event's key"],
    ['a key that is not a function', (once) => webhooks(once, { key: 'id' } as never), 'got "id" (string)'],
    [
      'no scope',
      (once) => idempotent(once, {} as never),
      'Expected scope to be a function that returns an ID that identifies the client',
    ],
    ['an unknown option', (once) => webhooks(once, { key: () => '', retian: 1 } as never), 'did you mean "retain"'],
    [
      'an invalid wait',
      (once) => idempotent(once, { scope: () => '', wait: 'soon' as never }),
      'Expected wait to be a duration',
    ],
    [
      'a status below 200',
      (once) => webhooks(once, { key: () => '', inFlight: 100 }),
      'Expected inFlight to be a whole number between 200 and 599',
    ],
    [
      'methods that are not strings',
      (once) => idempotent(once, { scope: () => '', methods: [1] as never }),
      'Expected methods to be an array of methods',
    ],
  ])('%s is refused', async (_, make, message) => {
    expect((await caught(UsageError, () => make({} as never))).message).toContain(message)
  })

  test.each([
    [undefined, 'got undefined'],
    ['', 'got ""'],
    [5, 'got 5'],
  ])('a scope function that returns %j is refused', async (scope, message) => {
    const { once } = await open({ url: fresh.url })
    const handler = idempotent(once, { scope: () => scope as never }).fetch(() => new Response())
    const request = new Request('http://x/', { method: 'POST', headers: { 'idempotency-key': '"k"' } })
    expect((await caught(UsageError, handler(request))).message).toContain(message)
  })

  test('a key function that returns undefined is refused', async () => {
    const { once } = await open({ url: fresh.url })
    const handler = webhooks(once, { key: () => undefined as never }).fetch(() => new Response())
    const error = await caught(UsageError, handler(new Request('http://x/', { method: 'POST' })))
    expect(error.message).toContain('Expected key to be a string of 1 to 500 characters')
    expect(error.hint).toContain('`(await request.json()).id`')
  })

  test('a key function that reads the id from the stream of a Request is refused with a hint', async () => {
    const { once } = await open({ url: fresh.url })
    const handler = webhooks(once, { key: (request) => `stripe:${request.body?.id}` }).fetch(() => new Response())
    const error = await caught(UsageError, handler(new Request('http://x/', { method: 'POST', body: '{"id":"a"}' })))
    expect(error.message).toContain('the part "undefined" shows that')
    expect(error.hint).toContain('The body of a Request is a stream, so use `(await request.json()).id`')
  })

  test.each([
    [undefined, 'got undefined'],
    ['', 'got "" (string)'],
    [{ a: 1 }, 'got an object (Object)'],
  ])('a fingerprint function that returns %j is refused', async (fingerprint, message) => {
    const { once } = await open({ url: fresh.url })
    const handler = webhooks(once, { key: () => 'k', fingerprint: () => fingerprint as never }).fetch(
      () => new Response(),
    )
    const error = await caught(UsageError, handler(new Request('http://x/', { method: 'POST' })))
    expect(error.message).toBe(`Expected fingerprint to return a non-empty string, ${message}`)
  })

  test('a fingerprint that is not a function is refused', async () => {
    const make = () => webhooks({} as never, { key: () => 'k', fingerprint: 'body' } as never)
    expect((await caught(UsageError, make)).message).toContain(
      'Expected fingerprint to be a function that returns the content that is the same in each delivery of an event',
    )
  })

  test('a listener of node:http handles each event once, and the key of a failed delivery is free', async () => {
    const { once } = await open({ url: fresh.url })
    const prefix = randomBytes(8).toString('hex')
    const printed = vi.spyOn(console, 'error').mockImplementation(() => {})
    onTestFinished(() => printed.mockRestore())
    let calls = 0
    const handle = webhooks(once, { key: ({ headers }) => `${prefix}:${headers['x-event-id']}` }).node(
      async (request, response) => {
        const { tx } = deliveryOf(request)!
        await tx.query('select 1')
        if (++calls < 3) throw new Error(`call ${calls}`)
        response.end(`call ${calls}: ${await text(request)}`)
      },
    )
    const url = await listen(createServer(handle))
    const send = async (id?: string) => {
      const { status, body } = await post(url, '{}', id === undefined ? json : { ...json, 'x-event-id': id })
      return [status, body.toString()]
    }
    expect((await send('1'))[0]).toBe(500)
    expect((await send('1'))[0]).toBe(500)
    expect(await send('1')).toEqual([200, 'call 3: {}'])
    expect(await send('1')).toEqual([200, 'call 3: {}'])
    expect((await send())[0]).toBe(500) // The key is missing.
    expect(calls).toBe(3)
    expect(printed).toHaveBeenCalledTimes(3)
  })

  test('a fetch handler that returns Response.error() fails, and the key stays free', async () => {
    const { once } = await open({ url: fresh.url })
    const responses = [Response.error(), new Response('done'), new Response('again')]
    const handle = webhooks(once, { key: () => 'error response' }).fetch(() => responses.shift()!)
    const send = () => handle(new Request('http://x/', { method: 'POST', body: '{}' }))
    expect((await caught(UsageError, send)).message).toContain('got Response.error()')
    for (let delivery = 2; delivery <= 3; delivery++) expect(await (await send()).text()).toBe('done')
  })

  test('middleware ends the response if the promise of an asynchronous next rejects', async () => {
    const { once } = await open({ url: fresh.url })
    const middleware = webhooks(once, { key: () => `rejected:${randomBytes(8).toString('hex')}` }).express()
    const errors: unknown[] = []
    const server = createServer((request, response) =>
      middleware(request, response, async (error) => {
        if (error === undefined) throw new Error('rejected')
        errors.push(error)
        response.writeHead(500).end()
      }),
    )
    expect((await post(await listen(server), '{}', json)).status).toBe(500)
    expect(errors).toMatchObject([{ message: 'rejected' }])
  })

  test('a handler that never ends its response is given up, also if the client disconnected before', async () => {
    const arrived = gate()
    const closing = new Promise<ServerResponse>((resolve) => {
      const server = createServer((_, response) => {
        response.once('close', () => resolve(response))
        arrived.open()
      })
      void listen(server).then((url) => {
        const sending = request(url).on('error', () => {})
        sending.end()
        void arrived.opened.then(() => sending.destroy())
      })
    })
    const response = await closing
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const captured = new ResponseCapture(response).response.catch((error) => error)
    vi.advanceTimersByTime(60_000)
    vi.useRealTimers()
    expect(await within(1_000, 'The end of the wait', captured)).toMatchObject({
      message: 'The handler did not end its response',
    })
  })

  test('a request whose client disconnects while the scope is computed fails', async () => {
    const { once } = await open({ url: fresh.url })
    const arrived = gate()
    const scope = async (request: IncomingMessage) => {
      const closed = new Promise((resolve) => request.once('close', resolve))
      arrived.open()
      await closed
      return 'user'
    }
    const middleware = idempotent(once, { scope }).express()
    const failing = new Promise<unknown>((resolve) => {
      const server = createServer((request, response) =>
        middleware(
          request.on('error', () => {}),
          response,
          resolve,
        ),
      )
      void listen(server).then((url) => {
        const headers = { 'idempotency-key': '"cut"', 'content-length': '10' }
        const sending = request(url, { method: 'POST', headers }).on('error', () => {})
        sending.flushHeaders()
        void arrived.opened.then(() => sending.destroy())
      })
    })
    expect(await within(3_000, 'The failure', failing)).toMatchObject({
      message: 'The connection was closed before the end of the request',
    })
  })

  test('bodies that the parsers of Express 4 left unread are compared', async () => {
    const { once } = await open({ url: fresh.url })
    const app = express()
    // The parsers of Express 4 set an empty body before they check the content type.
    const parserOfExpress4: express.RequestHandler = (request, _response, next) => {
      request.body ??= {}
      next()
    }
    const user = randomBytes(8).toString('hex')
    const guard = idempotent(once, { scope: () => user }).express()
    app.post('/', parserOfExpress4, express.json(), guard, async (request, response) => {
      response.end(`handled ${await text(request)}`)
    })
    const url = await listen(createServer(app))
    const send = async (body: string) => {
      const response = await post(url, body, { 'content-type': 'application/xml', 'idempotency-key': '"xml"' })
      return [response.status, response.body.toString()]
    }
    expect(await send('<pay>1</pay>')).toEqual([200, 'handled <pay>1</pay>'])
    expect((await send('<pay>2</pay>'))[0]).toBe(422)
    expect(await send('<pay>1</pay>')).toEqual([200, 'handled <pay>1</pay>'])
  })

  describe('a request body in Express', () => {
    const send = async (change: (request: express.Request) => Promise<void> | void) => {
      const { once } = await open({ url: fresh.url })
      const app = express()
      const errors: Error[] = []
      let handled = 0
      app.post(
        '/',
        async (request, _response, next) => {
          await change(request)
          next()
        },
        webhooks(once, { key: () => `compared:${randomBytes(8).toString('hex')}` }).express(),
        (_request, response) => {
          handled++
          response.end()
        },
      )
      const handleError: express.ErrorRequestHandler = (error, _request, response, _next) => {
        errors.push(error)
        response.status(500).end()
      }
      app.use(handleError)
      const url = await listen(createServer(app))
      const { status } = await post(url, '{"id":1}', json)
      return { status, handled, error: errors[0] as UsageError | undefined }
    }

    test('a body that was read and not stored is an error', async () => {
      const { status, handled, error } = await send(async (request) => void (await buffer(request)))
      expect([status, handled]).toEqual([500, 0])
      expect(error).toBeInstanceOf(UsageError)
      expect(error!.message).toBe(
        "Expected the request's body in request.rawBody or request.body, got nothing: the body was already read and was not stored",
      )
      expect(error!.hint).toContain("Set request.rawBody to the body's bytes")
    })

    test.each<[string, unknown, string]>([
      ['a Map', new Map([['id', 1]]), 'Expected a body that JSON can represent, got an object (Map)'],
      ['FormData', new FormData(), 'Expected a body that JSON can represent, got an object (FormData)'],
      ['an object with a Map', { tags: new Map([['a', 1]]) }, 'can represent, got an object (Map) at body.tags'],
      ['a stream', new PassThrough(), 'got an object (PassThrough): JSON cannot represent it'],
      [
        'a bigint',
        { id: 1n },
        'got an object (Object): Expected a body that JSON can represent, got 1 (bigint) at body.id',
      ],
    ])('a parsed body that is %s is an error', async (_, body, message) => {
      const { status, handled, error } = await send((request) => {
        request.body = body
      })
      expect([status, handled]).toEqual([500, 0])
      expect(error!.message).toContain(message)
    })

    test.each<[string, object]>([
      ['one file', { file: { originalname: 'invoice.pdf' } }],
      ['a list of files', { files: [{ originalname: 'invoice.pdf' }] }],
    ])('an upload of %s is an error, because the parsed body contains only the other fields', async (_, upload) => {
      const parse = async (request: express.Request) => {
        Object.assign(request, upload, { rawBody: undefined, body: { note: 'the same' } })
        await buffer(request)
      }
      const { status, handled, error } = await send(parse)
      expect([status, handled]).toEqual([500, 0])
      expect(error!.message).toContain('got uploaded files: request.body does not contain the files')
    })

    test('a body whose bytes are stored in rawBody is accepted', async () => {
      const { status, handled } = await send(async (request) => {
        Object.assign(request, { rawBody: await buffer(request), body: new Map() })
      })
      expect([status, handled]).toEqual([200, 1])
    })
  })

  test('deliveryOf returns null for a request without webhook or idempotent', () => {
    expect(deliveryOf(new Request('http://x/'))).toBeNull()
  })
})
