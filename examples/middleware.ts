// Shows middleware. The tenant of a web request is stored with each job and reaches the handlers, also of the jobs that a handler enqueues. A second
// middleware encrypts the inputs, so that the database never contains an address.
import { AsyncLocalStorage } from 'node:async_hooks'
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { defineJob, Holdfast, type Middleware } from 'holdfast'
import pg from 'pg'
import { withDatabase } from './database.ts'

const tenant = new AsyncLocalStorage<string>()
const key = randomBytes(32)

const tenants: Middleware = {
  enqueue: ({ jobs }, next) => next(jobs.map(({ meta }) => ({ meta: { tenant: tenant.getStore(), ...meta } }))),
  run: (call, next) =>
    call.type === 'job' && typeof call.meta.tenant === 'string' ? tenant.run(call.meta.tenant, next) : next(),
}

const encryption: Middleware = {
  enqueue: ({ jobs }, next) => next(jobs.map(({ input }) => ({ input: encrypt(input) }))),
  run: (call, next) => (call.type === 'job' ? next({ input: decrypt(call.input as string) }) : next()),
}

function encrypt(value: unknown): string {
  const iv = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', key, iv)
  const text = Buffer.concat([cipher.update(JSON.stringify(value)), cipher.final()])
  return Buffer.concat([iv, cipher.getAuthTag(), text]).toString('base64')
}

function decrypt(text: string): unknown {
  const bytes = Buffer.from(text, 'base64')
  const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, 12))
  decipher.setAuthTag(bytes.subarray(12, 28))
  return JSON.parse(decipher.update(bytes.subarray(28), undefined, 'utf8') + decipher.final('utf8'))
}

const receipt = defineJob('receipt', {
  run: ({ to }: { to: string }) => `receipt for ${to} of ${tenant.getStore()}`,
})
const order = defineJob('order', {
  run: async ({ to }: { to: string }, { enqueue }) => {
    const { id } = await enqueue(receipt, { to })
    return id
  },
})

await withDatabase(async (url) => {
  const holdfast = await Holdfast.open({ url, namespace: 'examples', middleware: [tenants, encryption] })

  // Two requests of different tenants.
  const orders = await Promise.all([
    tenant.run('acme', () => holdfast.jobs.enqueue(order, { to: 'ada@example.com' })),
    tenant.run('globex', () => holdfast.jobs.enqueue(order, { to: 'bob@example.com' })),
  ])

  holdfast.jobs.work([order, receipt])
  for (const one of orders) console.log(await holdfast.jobs.result(await holdfast.jobs.result(one)))

  const client = new pg.Client(url)
  await client.connect()
  const { rows } = await client.query("select count(*) from holdfast.job where payload::text like '%example.com%'")
  console.log(`jobs with a readable address in the database: ${rows[0].count}`)
  await client.end()
  await holdfast.close()
})

// prints:
// receipt for ada@example.com of acme
// receipt for bob@example.com of globex
// jobs with a readable address in the database: 0
