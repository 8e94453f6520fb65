// One instance of the company: a process of its own, started by the demo, which tells it where the database is.
import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { Holdfast, HoldfastError, type HoldfastOptions, HostsClient } from '../index.js'
import { type Desk, departments } from './company/index.js'
import type { Orders, Said } from './said.js'
import { WebServer } from './web-server.js'

// What the terminal or a supervisor sends to the whole group is for the demo, which tells us. And when the demo is gone,
// however it went, so are we.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
process.on('disconnect', () => process.exit())

let opening: Promise<() => Promise<void>>
process.on('message', async (message: Orders | 'close') => {
  if (message !== 'close') {
    opening = open(message)
    return
  }
  const close = await opening
  await close()
  process.exit()
})

const failures = ['schedule.failed', 'job.failed', 'share.failed', 'election.failed', 'worker.failed'] as const

function say(said: Said): void {
  // Whoever listened may be gone in this moment; then this process ends, too.
  if (process.connected) process.send!(said, undefined, undefined, () => {})
}

/** Answers with how to close it. */
async function open({ name, url, directUrl, schema, tables, expiryMs }: Orders): Promise<() => Promise<void>> {
  const pool = new pg.Pool({
    connectionString: url,
    Client: HostsClient,
    max: 10,
    application_name: `demo ${name}`,
    // A transaction of an instance that is frozen must not hold up the others for longer than its locks do.
    options: `-c search_path=${tables} -c idle_in_transaction_session_timeout=${expiryMs}`,
  })
  pool.on('error', () => {}) // A session that ended while it was idle: the pool opens another.
  const holdfast = await openPatiently({ pool, directUrl, schema, expiry: expiryMs })
  const server = new WebServer()
  const closing = new AbortController()

  const trouble = (error: unknown) => {
    const { name, message } = error as Error
    say({ say: 'trouble', error: `${name}: ${message}` })
  }
  for (const event of failures) holdfast.on(event, ({ error }) => trouble(error))
  const desk: Desk = {
    name,
    holdfast,
    pool,
    serve: (path, handler) => server.on(path, handler),
    async work(kind, which, run) {
      say({ say: 'begins', kind, which: String(which) })
      let isDone = false
      try {
        const result = await run()
        isDone = true
        return result
      } finally {
        say({ say: 'ends', kind, which: String(which), isDone })
      }
    },
    async repeat(pauseMs, turn) {
      while (!closing.signal.aborted) {
        await pause(pauseMs * (0.5 + Math.random()), undefined, { signal: closing.signal }).catch(() => {})
        if (!closing.signal.aborted) await turn().catch(trouble)
      }
    },
  }
  for (const department of departments) department(desk)
  say({ say: 'open', port: await server.listen() })

  return async () => {
    await server.close()
    closing.abort()
    await holdfast.close()
    await pool.end()
  }
}

/** Tries again what may succeed later: the machine may have too much to do with all of us. */
async function openPatiently(options: HoldfastOptions): Promise<Holdfast> {
  for (;;) {
    try {
      return await Holdfast.open(options)
    } catch (error) {
      if (!(error instanceof HoldfastError && error.retryable)) throw error
      await pause(500)
    }
  }
}
