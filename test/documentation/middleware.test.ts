// Runs the middleware of the guides as printed: each block is a module that exports one middleware.
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { defineJob, type Middleware } from '../../src/index.js'
import { drain } from '../../src/testing/index.js'
import { sql } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { root } from './lines.js'

const guides = ['middleware', 'logging']
  .map((name) => readFileSync(join(root, `docs/guides/${name}.md`), 'utf8'))
  .join('')

let folder: string
beforeAll(() => {
  // Inside the repository, so that the test runner compiles the modules.
  folder = mkdtempSync(join(root, 'test/documentation/middleware-'))
})
afterAll(() => rmSync(folder, { recursive: true }))

/** Returns the exports of the block that exports a middleware with this name. */
async function moduleOf<Exports = Record<string, Middleware>>(name: string): Promise<Exports> {
  const blocks = [...guides.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code]) => code!)
  const file = join(folder, `${name}.ts`)
  writeFileSync(file, blocks.find((code) => code.includes(`export const ${name}: Middleware`))!)
  return import(pathToFileURL(file).href)
}

const echo = defineJob('echo', { run: (input: unknown) => input })

test('the tenant of the caller reaches the handler, also of the jobs that a handler enqueues', async () => {
  interface Exports {
    tenant: { run<T>(tenant: string, work: () => T): T; getStore(): string | undefined }
    tenants: Middleware
  }
  const { tenant, tenants } = await moduleOf<Exports>('tenants')
  const holdfast = await open({ url: await databaseUrl(), middleware: [tenants] })
  const child = defineJob('child', { run: () => tenant.getStore() ?? 'none' })
  const parent = defineJob('parent', { run: async (_: null, { enqueue }) => (await enqueue(child)).id })
  const ids = [
    await tenant.run('acme', () => holdfast.jobs.enqueue(parent)),
    await tenant.run('globex', () => holdfast.jobs.enqueue(parent)),
    await holdfast.jobs.enqueue(parent),
  ]
  await drain(holdfast, [parent, child])
  const results = await Promise.all(ids.map(async (id) => holdfast.jobs.result(await holdfast.jobs.result(id))))
  expect(results).toEqual(['acme', 'globex', 'none'])
})

test('each error of a handler is reported once, with the call in the scope', async () => {
  const reported: unknown[] = []
  let tag: string | undefined
  const scope = { setTag: (_: string, value: string) => (tag = value) }
  const sentry = {
    withIsolationScope: <T>(work: (given: typeof scope) => T) => work(scope),
    captureException: (error: Error) => reported.push([tag, error.message]),
  }
  Object.assign(globalThis, { Sentry: sentry })
  const { reporting } = await moduleOf('reporting')
  const holdfast = await open({ url: await databaseUrl(), middleware: [reporting!] })
  const fail = defineJob('fail', {
    retry: { attempts: 1 },
    run: () => {
      throw new Error('broken')
    },
  })
  const { id } = await holdfast.jobs.enqueue(fail)
  await holdfast.jobs.enqueue(echo, 1)
  await drain(holdfast, [fail, echo])
  await expect(holdfast.once.run('order:1', () => Promise.reject(new Error('also broken')))).rejects.toThrow('also')
  expect(reported).toEqual([
    [`fail ${id}, attempt 1`, 'broken'],
    ['order:1', 'also broken'],
  ])
  expect(await holdfast.jobs.find(id)).toMatchObject({ state: 'buried', error: { message: 'broken' } })
})

test('inputs are encrypted in the database, and handlers receive the readable inputs', async () => {
  process.env.JOB_KEY = randomBytes(32).toString('base64')
  const { encryption } = await moduleOf('encryption')
  const url = await databaseUrl()
  const holdfast = await open({ url, middleware: [encryption!] })
  const inputs = [{ to: 'ada@example.com' }, null, 'ü', [1.5]]
  const refs = await holdfast.jobs.enqueueMany(echo, inputs)
  const [fromSql] = await sql<{ id: string }>(url, "select holdfast.enqueue('default', 'echo', '\"plain\"') as id")
  const stored = await sql<{ payload: string }>(url, 'select payload from holdfast.job where meta is not null')
  for (const { payload } of stored) expect(payload).toMatch(/^[\w+/]+=*$/)
  expect(stored).toHaveLength(inputs.length)
  await drain(holdfast, [echo])
  expect(await Promise.all(refs.map(({ id }) => holdfast.jobs.result(id)))).toEqual(inputs)
  expect(await holdfast.jobs.result(Number(fromSql!.id))).toBe('plain')
})

test('an old input is upgraded before it is validated', async () => {
  const { upgrades } = await moduleOf('upgrades')
  const url = await databaseUrl()
  const holdfast = await open({ url, middleware: [upgrades!] })
  const sendEmail = defineJob('send-email', { run: ({ to }: { to: string }) => to })
  await sql(url, "select holdfast.enqueue('default', 'send-email', '\"ada@example.com\"')")
  await holdfast.jobs.enqueue(sendEmail, { to: 'bob@example.com' })
  const ended = await drain(holdfast, [sendEmail])
  expect(ended.map(({ result }) => result).sort()).toEqual(['ada@example.com', 'bob@example.com'])
})
