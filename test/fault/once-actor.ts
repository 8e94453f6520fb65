// A process that runs keys at random, on orders over IPC. It writes each result to its own file immediately, so no line is lost if the process is
// killed.
import { openSync, writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  DatabaseError,
  DatabaseUnreachableError,
  type Delivery,
  Holdfast,
  OnceLostError,
  TooManyConnectionsError,
} from 'holdfast'
import pg from 'pg'
import { type Random, randomFrom } from '../property/random.ts'
import { patiently } from '../setup/patiently.ts'

interface Options {
  url: string
  expiryMs: number
  history: string
  anchor?: 'required' | 'none'
}

const { url, expiryMs, history, anchor }: Options = JSON.parse(process.argv[2]!)
const file = openSync(history, 'a')
const write = (line: object) => writeSync(file, `${JSON.stringify(line)}\n`)

const pool = new pg.Pool({ connectionString: url, max: 20, connectionTimeoutMillis: 5_000, query_timeout: 5_000 })
pool.on('error', () => {})
pool.on('connect', (client) => client.on('error', () => {}))
const holdfast = await patiently(() => Holdfast.open({ url, expiry: expiryMs, anchor, log: false }))
let runs = 0

const isExpected = (error: Error) =>
  [DatabaseUnreachableError, OnceLostError, TooManyConnectionsError].some((kind) => error instanceof kind) ||
  (error instanceof DatabaseError && error.retryable) ||
  error.message === 'changed my mind'

/** Has its effect through `tx`: an insert, and sometimes an update for which all runs of the key compete. */
async function work({ tx, signal }: Delivery, key: string, random: Random) {
  const value = `${process.pid}:${++runs}`
  if (random.chance(0.5)) await sleep(random.below(random.chance(0.1) ? 2 * expiryMs : 40))
  await tx.query('insert into effect (name, value) values ($1, $2)', [key, value])
  if (random.chance(0.3)) await tx.query('update counter set count = count + 1 where name = $1', [key])
  if (random.chance(0.3)) await sleep(random.below(30))
  if (random.chance(0.1)) throw new Error('changed my mind')
  if (random.chance(0.2)) signal.throwIfAborted()
  return value
}

async function inTransaction(key: string, options: { wait: number }, random: Random) {
  const client = await pool.connect()
  let broken: Error | undefined
  try {
    await client.query("begin; set local idle_in_transaction_session_timeout = '2s'")
    const result = await holdfast.once.inTransaction(client, key, options, (delivery) => work(delivery, key, random))
    if (random.chance(0.2)) throw new Error('changed my mind')
    await client.query('commit')
    return result
  } catch (error) {
    await client.query('rollback').catch((failure) => {
      broken = failure
    })
    throw error
  } finally {
    client.release(broken)
  }
}

async function step({ keys }: { keys: string[] }, random: Random) {
  const key = random.pick(keys)
  const options = { wait: random.chance(0.5) ? random.below(300) : 0 }
  const inside = random.chance(0.25)
  const running = inside
    ? inTransaction(key, options, random)
    : holdfast.once.run(key, options, (delivery) => work(delivery, key, random))
  try {
    write({ key, ...(await running) })
  } catch (error) {
    // In the user's own transaction, the driver may throw any error.
    const known = error as Error
    if (!isExpected(known) && !inside) write({ key, unexpected: String(known.stack ?? known) })
  }
}

interface Order {
  seed: number
  keys: string[]
  flows: number
  steps: number
}

process.on('message', async ({ seed, keys, flows, steps }: Order) => {
  const flow = async (random: Random) => {
    for (let i = 0; i < steps; i++) await step({ keys }, random)
  }
  await Promise.all(Array.from({ length: flows }, (_, i) => flow(randomFrom(seed + i))))
  process.send?.('finished')
})
process.on('disconnect', () => process.exit())
process.send?.('open')
