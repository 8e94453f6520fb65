// Tests the one line in each framework, under any prefix: the page with its assets, its requests, its acts and its live events.
import { readdirSync } from 'node:fs'
import { createServer } from 'node:http'
import { serve as serveHono } from '@hono/node-server'
import express from 'express'
import Fastify from 'fastify'
import { Hono } from 'hono'
import { expect, onTestFinished, test } from 'vitest'
import type { Dashboard } from '../../src/dashboard/index.js'
import { until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { act, board, listen, serve, watch } from './fixture.js'

type Mount = (made: Dashboard) => Promise<string>

const mounts: Record<string, Mount> = {
  'node:http': (made) => serve(made, '/'),
  'node:http, under a path with everything in it': (made) => serve(made, "/a%20'b/%3Cscript%3E/x&y"),
  async Express(made) {
    const app = express()
    app.use('/admin/holdfast', made.node)
    return `${await listen(createServer(app))}/admin/holdfast`
  },
  async 'Express, in a router of a router, behind a body parser'(made) {
    const [app, outer, inner] = [express(), express.Router(), express.Router()]
    app.use(express.json())
    inner.use('/fleet', made.node)
    outer.use('/ops', inner)
    app.use('/api', outer)
    return `${await listen(createServer(app))}/api/ops/fleet/`
  },
  async Fastify(made) {
    const app = Fastify({ forceCloseConnections: true })
    app.register(made.fastify, { prefix: '/admin/holdfast' })
    onTestFinished(() => app.close())
    return `${await app.listen({ port: 0, host: '127.0.0.1' })}/admin/holdfast`
  },
  async Hono(made) {
    const app = new Hono()
    app.all('/admin/holdfast/*', (c) => made.fetch(c.req.raw, { remoteAddress: '127.0.0.1' }))
    const server = serveHono({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' })
    onTestFinished(() => void server.close())
    await new Promise((resolve) => server.once('listening', resolve))
    return `http://127.0.0.1:${(server.address() as { port: number }).port}/admin/holdfast`
  },
}

/** Starts six servers, which takes seconds on an idle machine and longer on a busy one. */
const patient = { timeout: 120_000 }

test('the dashboard works in each framework', patient, async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const lock = await holdfast.locks.acquire('etl')
  const made = board({ url })
  const script = readdirSync('dist/dashboard/ui/assets').find((name) => name.endsWith('.js'))!
  for (const [name, mount] of Object.entries(mounts)) {
    const address = await mount(made)
    const page = await fetch(address)
    const html = await page.text()
    expect([name, page.status, page.headers.get('cache-control')]).toEqual([name, 200, 'no-store'])
    // As a browser finds the assets of the page.
    const base = new URL(
      /<base href="([^"]*)"/.exec(html)![1]!.replaceAll('&#38;', '&').replaceAll('&#39;', "'"),
      address,
    )
    expect(base.href.replace(/\/$/, '')).toBe(new URL(address).href.replace(/\/$/, ''))
    expect(html).not.toContain('<script>')
    const asset = await fetch(new URL(/src="([^"]*)"/.exec(html)![1]!, base))
    expect([asset.status, asset.headers.get('content-encoding')]).toEqual([200, 'gzip'])
    expect(asset.headers.get('cache-control')).toContain('immutable')
    expect(asset.url.endsWith(script)).toBe(true)
    const root = base.href.replace(/\/$/, '')
    expect(await (await fetch(`${root}/api/me`)).json()).toMatchObject({ visitor: 'loopback', error: null })
    const { heard, leave } = await watch(root, 'audit')
    await until('the first snapshot has arrived', () => heard.length > 0)
    expect(heard[0]).toMatchObject({ event: 'view', data: { view: 'audit', data: { rows: [] } } })
    leave()
    const done = await act(root, 'release-name', { params: { key: lock.keys[0] }, preview: true })
    expect([name, done.status, done.answer]).toMatchObject([name, 200, { consequence: { dangerous: false } }])
  }
})

test('the dashboard works as route handlers of Next.js, which pass a second argument', async () => {
  const made = board({ url: await databaseUrl(), auth: () => ({ name: 'ada' }) })
  const route = { GET: made.fetch, POST: made.fetch }
  const request = new Request('https://app.example/admin/holdfast/api/me', { headers: { host: 'app.example' } })
  const context = { params: Promise.resolve({ path: ['api', 'me'] }) }
  const response = await route.GET(request, context as never)
  expect(await response.json()).toMatchObject({ visitor: 'ada', rights: [] })
})
