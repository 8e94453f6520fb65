// PgBouncer in front of a server, if the program is installed. PgBouncer ends when this process ends, also after a crash.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, chown, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { findFreePort } from '../dist/embedded/ports.js'
import { chooseUser, spawnAs } from '../dist/embedded/user.js'
import { Watchdog } from '../dist/embedded/watchdog.js'

const program = [process.env.HOLDFAST_TEST_PGBOUNCER, '/usr/sbin/pgbouncer', '/usr/bin/pgbouncer']
  .filter((path) => path !== undefined)
  .find((path) => existsSync(path))

const startWithinMs = 20_000

export const hasPgBouncer = program !== undefined

export interface PoolerOptions {
  mode?: 'transaction' | 'session'
  /** Maximum number of server connections per database. */
  backends?: number
  /** Whether PgBouncer uses the server connection that has been idle longest. Otherwise it uses the one that was used last. */
  roundRobin?: boolean
}

export interface Pooler {
  /** Returns the URL of the same database through the pooler. */
  through(url: string): string
  /** Kills PgBouncer and starts it again. */
  restart(): Promise<void>
  /** Kills PgBouncer and starts it in front of another server. */
  moveTo(url: string): Promise<void>
  /** Kills PgBouncer. */
  stop(): Promise<void>
}

export async function startPooler(
  url: string,
  { mode = 'transaction', backends = 20, roundRobin = false }: PoolerOptions = {},
): Promise<Pooler> {
  // PgBouncer refuses to run as root, as PostgreSQL does.
  const user = await chooseUser(undefined)
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-pgbouncer-'))
  const file = join(directory, 'pgbouncer.ini')
  const port = await findFreePort()
  const configure = async (url: string) => {
    const server = new URL(url)
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
  }
  await configure(url)
  await chmod(file, 0o600)
  if (user) for (const path of [directory, file]) await chown(path, user.uid, user.gid)

  const watchdog = new Watchdog({ path: directory, temporary: true, removable: [directory] })
  let child: ChildProcess
  const start = async () => {
    const started = spawn(program!, [file], { ...spawnAs(user), stdio: ['ignore', 'ignore', 'pipe'] })
    child = started
    let log = ''
    started.stderr.setEncoding('utf8').on('data', (text) => {
      log += text
    })
    watchdog.watch(child.pid)
    const deadline = performance.now() + startWithinMs
    while (!(await accepts(port))) {
      if (!isAlive(child) || performance.now() > deadline) throw new Error(`PgBouncer did not start. Its log:\n${log}`)
      await sleep(20)
    }
  }
  await start()
  const restart = async () => {
    const exited = isAlive(child) ? once(child, 'exit') : undefined
    child.kill('SIGKILL')
    await exited
    await start()
  }
  let stopped: Promise<void> | undefined
  return {
    through(direct) {
      const through = new URL(direct)
      through.hostname = '127.0.0.1'
      through.port = String(port)
      return through.href
    },
    restart,
    async moveTo(url) {
      await configure(url)
      await restart()
    },
    stop() {
      stopped ??= watchdog.close().then(() => rm(directory, { recursive: true, force: true }))
      return stopped
    },
  }
}

function isAlive({ exitCode, signalCode }: ChildProcess) {
  return exitCode === null && signalCode === null
}

function quoted(value: string) {
  return `'${decodeURIComponent(value).replaceAll("'", "''")}'`
}

function accepts(port: number) {
  return new Promise<boolean>((resolve) => {
    const socket = connect(port, '127.0.0.1')
    const settle = (isAccepted: boolean) => () => {
      socket.destroy()
      resolve(isAccepted)
    }
    socket.once('connect', settle(true)).once('error', settle(false))
  })
}
