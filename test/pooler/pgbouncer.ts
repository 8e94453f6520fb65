// A PgBouncer of the test's own before the server of the run, where the program is installed.
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, chown, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inject, onTestFinished } from 'vitest'
import { findFreePort } from '../../src/embedded/ports.js'
import { chooseUser, spawnAs } from '../../src/embedded/user.js'
import { Watchdog } from '../../src/embedded/watchdog.js'
import { until } from '../setup/facts.js'

const program = [process.env.HOLDFAST_TEST_PGBOUNCER, '/usr/sbin/pgbouncer', '/usr/bin/pgbouncer']
  .filter((path) => path !== undefined)
  .find((path) => existsSync(path))

/** To be given to `describe.skipIf`. Says so when there is nothing to test with. */
export const withoutPgBouncer = program === undefined
if (withoutPgBouncer)
  console.warn('PgBouncer is not installed (or set HOLDFAST_TEST_PGBOUNCER): its tests are skipped.')

export interface PoolerOptions {
  mode: 'transaction' | 'session'
  /** How many backends it opens for each database. */
  backends?: number
  /** Hands out the backend that has rested longest; otherwise the one that was used last. */
  roundRobin?: boolean
}

export interface Pooler {
  /** The same database, through the pooler. */
  through(url: string): string
  /** Ends it, as a crash would; also done when the test has finished. */
  stop(): Promise<void>
}

export async function startPooler({ mode, backends = 20, roundRobin = false }: PoolerOptions): Promise<Pooler> {
  const server = new URL(inject('adminUrl'))
  // It refuses to run as root, just as PostgreSQL does.
  const user = await chooseUser(undefined)
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-pgbouncer-'))
  const file = join(directory, 'pgbouncer.ini')
  const port = await findFreePort()
  await writeFile(
    file,
    `[databases]
* = host=${server.hostname} port=${server.port || 5432} user=${quoted(server.username)} password=${quoted(server.password)}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = ${mode}
default_pool_size = ${backends}
max_client_conn = 500
server_round_robin = ${roundRobin ? 1 : 0}
`,
  )
  await chmod(file, 0o600)
  if (user) for (const path of [directory, file]) await chown(path, user.uid, user.gid)

  // Ends the program and removes its directory even when this process is killed.
  const watchdog = new Watchdog({ path: directory, temporary: true, removable: [directory] })
  const child = spawn(program!, [file], { ...spawnAs(user), stdio: ['ignore', 'ignore', 'pipe'] })
  let log = ''
  child.stderr.setEncoding('utf8').on('data', (text) => {
    log += text
  })
  watchdog.watch(child.pid)
  let stopped: Promise<void> | undefined
  const stop = () => {
    stopped ??= watchdog.close().then(() => rm(directory, { recursive: true, force: true }))
    return stopped
  }
  onTestFinished(stop)
  await until('PgBouncer accepts connections', () => {
    if (child.exitCode !== null) throw new Error(`PgBouncer did not start. It said:\n${log}`)
    return accepts(port)
  })
  return {
    stop,
    through(url) {
      const through = new URL(url)
      through.hostname = '127.0.0.1'
      through.port = String(port)
      return through.href
    },
  }
}

function quoted(value: string): string {
  return `'${decodeURIComponent(value).replaceAll("'", "''")}'`
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    const answer = (yes: boolean) => () => {
      socket.destroy()
      resolve(yes)
    }
    socket.once('connect', answer(true)).once('error', answer(false))
  })
}
