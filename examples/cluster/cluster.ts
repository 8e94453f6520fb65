// Runs a Patroni cluster on this machine: etcd, three PostgreSQL nodes, and HAProxy, which forwards all connections to the leader. All connections to a
// node, and from a node to etcd, pass through wires, which can be cut.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { randomBytes, randomInt } from 'node:crypto'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { Wire } from './wire.ts'

/** In seconds. The leader renews its key every `loop_wait`. A failed leader is replaced `ttl` after its last renewal. */
const timing = { ttl: 20, loop_wait: 2, retry_timeout: 5 }

/** Paths of the installed programs. A path is undefined if the program is missing. */
const [postgres] = versionsOfPostgres()
const programs = {
  'etcd-server': find('etcd'),
  patroni: find('patroni'),
  postgresql: postgres && `/usr/lib/postgresql/${postgres}/bin`,
  haproxy: find('haproxy'),
}

const pgbouncer = find('pgbouncer')

/** Debian packages that are required but not installed. */
export const missing = Object.entries(programs).flatMap(([name, path]) => (path === undefined ? [name] : []))

/** Starts a cluster. Resolves when there is a leader with two streaming standbys. */
export async function startCluster() {
  const cluster = new Cluster()
  try {
    await cluster.start()
    return cluster
  } catch (error) {
    await cluster.stop()
    throw error
  }
}

interface Node {
  readonly name: string
  /** The node's directory. */
  readonly place: string
  readonly postgres: number
  readonly rest: number
  readonly password: string
  readonly wires: { readonly postgres: Wire; readonly rest: Wire; readonly etcd: Wire }
  patroni: ChildProcess | undefined
}

/** A member, as Patroni reports it. */
interface Member {
  readonly name: string
  readonly role: string
}

class Cluster {
  /** URL of the database through HAProxy. */
  url!: string
  /** URL of the database through PgBouncer in transaction mode and HAProxy. Undefined if PgBouncer is not installed. */
  pooledUrl: string | undefined
  #superuserUrl!: string
  #nodes: Node[] = []
  #directory = mkdtempSync(join(tmpdir(), 'holdfast-cluster-'))
  #user = ordinaryUser()
  #running = new Set<ChildProcess | undefined>()
  #watchdog = spawn('sh', ['-c', watchdogScript, 'sh', this.#directory], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })

  async start() {
    const found = await freePorts(10)
    const [etcdPort, peerPort, proxyPort, poolerPort] = found.splice(0, 4) as [number, number, number, number]
    const password = randomBytes(12).toString('hex')
    chmodSync(this.#directory, 0o755) // If this program runs as root, the nodes run as another user, who needs access.
    const [etcdUrl, peerUrl] = [etcdPort, peerPort].map((port) => `http://127.0.0.1:${port}`)
    this.#run('etcd', programs['etcd-server']!, [
      `--data-dir=${join(this.#place('etcd'), 'data')}`,
      `--listen-client-urls=${etcdUrl}`,
      `--advertise-client-urls=${etcdUrl}`,
      `--listen-peer-urls=${peerUrl}`,
      `--initial-advertise-peer-urls=${peerUrl}`,
      `--initial-cluster=default=${peerUrl}`,
    ])

    const wires = async (postgres: number, rest: number) => ({
      postgres: await Wire.to(postgres),
      rest: await Wire.to(rest),
      etcd: await Wire.to(etcdPort),
    })
    this.#nodes = await Promise.all(
      ['a', 'b', 'c'].map(async (name, i) => {
        const [postgres, rest] = found.slice(2 * i) as [number, number]
        const place = this.#place(name)
        return { name, place, postgres, rest, password, wires: await wires(postgres, rest), patroni: undefined }
      }),
    )
    for (const node of this.#nodes) {
      // Every JSON document is also a YAML document.
      writeFileSync(join(node.place, 'patroni.yml'), JSON.stringify(patroniConfig(node), null, 2))
      this.#startNode(node)
    }

    const proxyFile = join(this.#place('haproxy'), 'haproxy.cfg')
    writeFileSync(proxyFile, haproxyConfig(proxyPort, this.#nodes))
    this.#run('haproxy', programs.haproxy!, ['-db', '-f', proxyFile])

    const at = `127.0.0.1:${proxyPort}`
    this.#superuserUrl = `postgres://postgres:${password}@${at}/postgres`
    await this.whole()
    await this.#query(`create role app login password '${password}'`)
    await this.#query('create database holdfast owner app')
    this.url = `postgres://app:${password}@${at}/holdfast`
    if (!pgbouncer) return
    const place = this.#place('pgbouncer')
    writeFileSync(join(place, 'users.txt'), `"app" "${password}"\n`)
    writeFileSync(join(place, 'pgbouncer.ini'), pgbouncerConfig(poolerPort, proxyPort, join(place, 'users.txt')))
    this.#run('pgbouncer', pgbouncer, [join(place, 'pgbouncer.ini')])
    this.pooledUrl = this.url.replace(`:${proxyPort}/`, `:${poolerPort}/`)
    const answers = () => this.#query('select', this.pooledUrl).catch(() => false)
    await this.#until('a connection through PgBouncer', answers, 30_000)
  }

  /** Returns the name of the node that holds the leader key, according to the nodes that can be reached. */
  async leader() {
    return (await this.#members()).find(({ role }) => role === 'leader')?.name
  }

  /** Requests another leader, as an administrator does before maintenance. Returns the name of the old leader, as the other faults do. */
  async switchover() {
    const node = await this.#leading()
    const response = await fetch(`http://127.0.0.1:${node.rest}/switchover`, {
      method: 'POST',
      body: JSON.stringify({ leader: node.name }),
    })
    if (!response.ok) throw new Error(`Patroni did not switch over: ${await response.text()}`)
    return node.name
  }

  /** Kills all of the leader's programs at the same time. */
  async kill() {
    const node = await this.#leading()
    // Patroni first, because it would restart PostgreSQL.
    node.patroni?.kill('SIGKILL')
    const pid = Number(readFileSync(join(node.place, 'data/postmaster.pid'), 'utf8').split('\n')[0])
    process.kill(pid, 'SIGKILL') // The backends notice the end of this process and exit.
    return node.name
  }

  /** Cuts all of the leader's connections. The leader continues to run. */
  async cutOff() {
    const node = await this.#leading()
    for (const wire of Object.values(node.wires)) wire.cut()
    return node.name
  }

  /** Waits for a leader other than `former`. Returns its name. */
  async successorOf(former: string) {
    const next = async () => {
      const name = await this.leader()
      return name !== former ? name : undefined
    }
    return this.#until(`a leader other than ${former}`, next, 60_000)
  }

  /** Restarts killed nodes and reconnects all nodes. */
  async heal() {
    for (const node of this.#nodes) {
      for (const wire of Object.values(node.wires)) wire.mend()
      if (!this.#running.has(node.patroni)) this.#startNode(node)
    }
    await this.whole()
  }

  /** Waits for a leader with two streaming standbys, one of them synchronous. */
  async whole() {
    const isWhole = async () => {
      const roles = (await this.#members()).map(({ role }) => role).sort()
      const [row] = await this.#query(
        "select count(*) as streaming from pg_stat_replication where state = 'streaming' and application_name in ('a', 'b', 'c')",
      )
      return roles.join() === 'leader,replica,sync_standby' && row.streaming === '2'
    }
    await this.#until('a leader with two streaming standbys', () => isWhole().catch(() => false), 120_000)
  }

  /** Stops all programs and removes the directory. The watchdog also does this when this process ends for any reason. */
  async stop() {
    for (const { wires } of this.#nodes) for (const wire of Object.values(wires)) wire.close()
    this.#watchdog.stdin.end()
    if (this.#watchdog.exitCode === null) await once(this.#watchdog, 'exit')
  }

  /** Returns the members, according to the first node that responds. */
  async #members(): Promise<Member[]> {
    const answers = this.#nodes.map(async ({ wires }) => {
      const response = await fetch(`http://127.0.0.1:${wires.rest.port}/cluster`, {
        signal: AbortSignal.timeout(2_000),
      })
      return ((await response.json()) as { members: Member[] }).members
    })
    return Promise.any(answers).catch(() => [])
  }

  async #leading() {
    const name = await this.#until('a leader', () => this.leader(), 60_000)
    return this.#nodes.find((node) => node.name === name)!
  }

  #startNode(node: Node) {
    node.patroni = this.#run(node.name, programs.patroni!, [join(node.place, 'patroni.yml')])
  }

  /** Creates a private directory for a program. */
  #place(name: string) {
    const path = join(this.#directory, name)
    mkdirSync(path, { mode: 0o700 })
    if (this.#user !== undefined) chownSync(path, this.#user.uid, this.#user.gid)
    return path
  }

  #run(name: string, program: string, words: string[]) {
    const log = openSync(this.#log(name), 'a')
    // Each program has its own process group, so that Ctrl-C does not reach it.
    const started = spawn(program, words, {
      ...this.#user,
      cwd: '/',
      env: { PATH: process.env.PATH, LC_ALL: 'C.UTF-8', HOME: this.#directory },
      detached: true,
      stdio: ['ignore', log, log],
    })
    closeSync(log)
    this.#running.add(started)
    started.on('exit', () => {
      this.#running.delete(started)
      this.#tellWatchdog()
    })
    this.#tellWatchdog()
    return started
  }

  #tellWatchdog() {
    this.#watchdog.stdin.write(`${[...this.#running].map((child) => child?.pid).join(' ')}\n`)
  }

  #log(name: string) {
    return join(this.#directory, `${name}.log`)
  }

  async #query(text: string, connectionString = this.#superuserUrl) {
    const client = new pg.Client({
      connectionString,
      connectionTimeoutMillis: 3_000,
      query_timeout: 10_000,
    })
    client.on('error', () => {}) // The failed statement reports the error.
    try {
      await client.connect()
      return (await client.query(text)).rows
    } finally {
      await client.end().catch(() => {})
    }
  }

  async #until<Found>(what: string, fact: () => Promise<Found | false | undefined>, withinMs: number): Promise<Found> {
    const deadline = performance.now() + withinMs
    for (;;) {
      const found = await fact()
      if (found) return found
      if (performance.now() > deadline)
        throw new Error(`Waited ${withinMs / 1_000} s without success for ${what}.\n${this.#lastWords()}`)
      await pause(100)
    }
  }

  #lastWords() {
    const names = readdirSync(this.#directory).filter((name) => name.endsWith('.log'))
    const tail = (name: string) =>
      readFileSync(join(this.#directory, name), 'utf8').trimEnd().split('\n').slice(-5).join('\n')
    return names.map((name) => `${name}:\n${tail(name)}`).join('\n')
  }
}

/** Shell script of the watchdog. Reads the ids of the running programs, one line per change, until this process ends. Then stops the programs. */
const watchdogScript = `
while read -r line; do pids=$line; done
kill -s KILL $pids 2>/dev/null
for data in "$1"/*/data; do
  pid=$(head -n 1 "$data/postmaster.pid" 2>/dev/null) || continue
  # The process id in an old file may belong to another program by now.
  while [ "$(readlink /proc/$pid/cwd)" = "$data" ]; do kill -s QUIT $pid; sleep 0.1; done
done
rm -rf -- "$1"
`

function patroniConfig({ name, place, postgres, rest, password, wires }: Node) {
  return {
    scope: 'holdfast',
    name,
    restapi: { listen: `127.0.0.1:${rest}`, connect_address: `127.0.0.1:${wires.rest.port}` },
    // Without use_proxies, Patroni reads the address of etcd from etcd and bypasses the wire.
    etcd3: { hosts: [`127.0.0.1:${wires.etcd.port}`], use_proxies: true },
    bootstrap: {
      dcs: {
        ...timing,
        synchronous_mode: true,
        postgresql: {
          use_pg_rewind: true,
          use_slots: true,
          parameters: { max_connections: 200, shared_buffers: '32MB' },
        },
      },
      initdb: [{ encoding: 'UTF8' }, 'data-checksums'],
    },
    postgresql: {
      listen: `127.0.0.1:${postgres}`,
      connect_address: `127.0.0.1:${wires.postgres.port}`,
      use_unix_socket: true,
      data_dir: join(place, 'data'),
      bin_dir: programs.postgresql,
      pgpass: join(place, 'pgpass'),
      parameters: { unix_socket_directories: place },
      authentication: {
        superuser: { username: 'postgres', password },
        replication: { username: 'replicator', password },
      },
      pg_hba: [
        'local all all trust',
        'host all all 127.0.0.1/32 scram-sha-256',
        'host replication replicator 127.0.0.1/32 scram-sha-256',
      ],
    },
  }
}

function haproxyConfig(port: number, nodes: Node[]) {
  const servers = nodes.map(
    ({ name, wires }) => `  server ${name} 127.0.0.1:${wires.postgres.port} check port ${wires.rest.port}`,
  )
  return `defaults
  mode tcp
  timeout connect 2s
  timeout check 1s
  timeout client 30m
  timeout server 30m

listen leader
  bind 127.0.0.1:${port}
  option httpchk OPTIONS /primary
  http-check expect status 200
  default-server inter 1s fall 3 rise 1 on-marked-down shutdown-sessions
${servers.join('\n')}
`
}

function pgbouncerConfig(port: number, proxyPort: number, users: string) {
  return `[databases]
* = host=127.0.0.1 port=${proxyPort}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = ${users}
pool_mode = transaction
default_pool_size = 20
max_client_conn = 500
server_login_retry = 1
`
}

/** Returns an ordinary user if this process runs as root, because PostgreSQL refuses to run as root. */
function ordinaryUser() {
  if (process.getuid?.() !== 0) return
  const [uid, gid] = ['-u', '-g'].map((flag) => Number(execFileSync('id', [flag, 'nobody'])))
  return { uid: uid!, gid: gid! }
}

/** Finds ports outside the range for outgoing connections, because an outgoing connection could take such a port first. */
async function freePorts(count: number) {
  const found = new Set<number>()
  while (found.size < count) {
    const port = randomInt(20_000, 32_000)
    const probe = createServer().listen(port, '127.0.0.1')
    const isFree = await once(probe, 'listening').then(
      () => true,
      () => false,
    )
    if (isFree) found.add(port)
    probe.close()
  }
  return [...found]
}

function find(program: string) {
  const directories = [...(process.env.PATH ?? '').split(':'), '/usr/sbin']
  return directories.map((directory) => join(directory, program)).find(existsSync)
}

/** Returns the PostgreSQL versions that are installed as Debian packages, the newest first. */
function versionsOfPostgres() {
  const root = '/usr/lib/postgresql'
  const versions = existsSync(root) ? readdirSync(root) : []
  return versions
    .filter((version) => existsSync(join(root, version, 'bin/postgres')))
    .sort((a, b) => Number(b) - Number(a))
}
