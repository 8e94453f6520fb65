// One of the company's instances: a process that the demo starts.
import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { Holdfast, HoldfastError, type HoldfastOptions, HostsClient } from '../index.js'
import { type CompanyContext, type DepartmentContext, departments, departmentsWithout } from './company/index.js'
import type { InstanceMessage, InstanceOptions } from './messages.js'
import { WebServer } from './web-server.js'

// The demo has ended without closing this instance.
process.on('disconnect', () => process.exit())

let opening: Promise<() => Promise<void>>
process.on('message', async (message: InstanceOptions | 'close') => {
  if (message !== 'close') {
    opening = open(message)
    return
  }
  const close = await opening
  await close()
  process.exit()
})

const failureEvents = ['schedule.failed', 'job.failed', 'share.failed', 'election.failed', 'worker.failed'] as const

function send(message: InstanceMessage): void {
  // Sends nothing if the demo has ended, because this process is then exiting too.
  if (process.connected) process.send!(message, undefined, undefined, () => {})
}

/** Opens the instance, and returns a function that closes it. */
async function open(options: InstanceOptions): Promise<() => Promise<void>> {
  const { name, url, directUrl, schema, tables, isWithout, expiryMs } = options
  const pool = new pg.Pool({
    connectionString: url,
    Client: HostsClient,
    max: 10,
    application_name: `demo ${name}`,
    // A frozen instance's transaction must not block other instances for longer than its locks do.
    options: `-c search_path=${tables} -c idle_in_transaction_session_timeout=${expiryMs}`,
  })
  pool.on('error', () => {}) // An idle session has ended. The pool opens another one.
  const server = new WebServer()
  const closing = new AbortController()

  const sendTrouble = (error: unknown) => {
    const { name, message } = error as Error
    send({ type: 'trouble', error: `${name}: ${message}` })
  }
  const context: CompanyContext = {
    name,
    pool,
    serve: (path, handler) => server.on(path, handler),
    async record(kind, subject, run) {
      send({ type: 'work-started', kind, subject: String(subject) })
      let isDone = false
      try {
        const result = await run()
        isDone = true
        return result
      } finally {
        send({ type: 'work-ended', kind, subject: String(subject), isDone })
      }
    },
    async repeat(pauseMs, run) {
      while (!closing.signal.aborted) {
        await pause(pauseMs * (0.5 + Math.random()), undefined, { signal: closing.signal }).catch(() => {})
        if (!closing.signal.aborted) await run().catch(sendTrouble)
      }
    },
  }
  let holdfast: Holdfast | undefined
  if (isWithout) for (const department of departmentsWithout) department(context)
  else {
    holdfast = await openWithRetry({ pool, name, directUrl, schema, expiry: expiryMs, log: false })
    for (const event of failureEvents) holdfast.on(event, ({ error }) => sendTrouble(error))
    const withHoldfast: DepartmentContext = { ...context, holdfast }
    for (const department of departments) department(withHoldfast)
  }
  send({ type: 'open', port: await server.listen() })

  return async () => {
    await server.close()
    closing.abort()
    await holdfast?.close()
    await pool.end()
  }
}

/** Opens the instance with retries, because many instances that start at the same time may overload the machine. */
async function openWithRetry(options: HoldfastOptions): Promise<Holdfast> {
  for (;;) {
    try {
      return await Holdfast.open(options)
    } catch (error) {
      if (!(error instanceof HoldfastError && error.retryable)) throw error
      await pause(500)
    }
  }
}
