// The smoke suite: installs the packed package in an empty project, and runs programs on one runtime, against an embedded server.
//
//   node --import ./scripts/typescript.js scripts/smoke/run.ts bun      the command or path of Node.js, Bun or Deno
//
// .ci/smoke installs a runtime and calls this program. The suite needs a build in dist.
import { type ChildProcessByStdio, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { startEmbedded } from '../../dist/embedded/index.js'

const root = fileURLToPath(new URL('../..', import.meta.url))
const [command] = process.argv.slice(2)
if (command === undefined) throw new Error('Expected the command of a runtime: node, bun or deno')

/** Arguments of a runtime before the program's path. Node 20 needs the loader to run TypeScript. */
const runtimeArgs: Record<string, string[]> = {
  node: ['--import', new URL('../typescript.js', import.meta.url).href],
  bun: [],
  deno: ['run', '--allow-all'],
}
const args = runtimeArgs[basename(command)]
if (args === undefined) throw new Error(`Expected node, bun or deno, got ${command}`)

/** A program that hangs fails after this time, or after `maxExitMs` if it has printed its last line. */
const maxRunMs = 60_000
const maxExitMs = 5_000

const project = mkdtempSync(join(tmpdir(), 'holdfast-smoke-'))
const programs = ['test/package/everything.ts', 'scripts/smoke/takeover.ts']
const started: Program[] = []

class Program {
  readonly exited: Promise<number | null>
  readonly #process: ChildProcessByStdio<null, Readable, null>
  #output = ''
  #lineAt = performance.now()
  #onOutput = () => {}

  constructor(...programArgs: string[]) {
    started.push(this)
    this.#process = spawn(command!, [...args!, ...programArgs], { cwd: project, stdio: ['ignore', 'pipe', 'inherit'] })
    this.exited = once(this.#process, 'exit').then(([code]) => {
      this.#onOutput()
      return code as number | null
    })
    this.#process.stdout.on('data', (chunk) => {
      this.#output += chunk
      this.#lineAt = performance.now()
      this.#onOutput()
    })
  }

  /** Waits until the program has printed this line, and returns the time of its output. */
  async prints(line: string): Promise<number> {
    const deadline = performance.now() + maxRunMs
    while (!this.#output.split('\n').includes(line)) {
      if (this.#process.exitCode !== null) throw new Error(`Exited with ${this.#process.exitCode} before "${line}"`)
      if (performance.now() > deadline) throw new Error(`Did not print "${line}". Output: ${this.#output}`)
      await new Promise<void>((resolve) => {
        this.#onOutput = resolve
        setTimeout(resolve, 1_000).unref()
      })
    }
    return this.#lineAt
  }

  /** Waits until the program has ended by itself after its last line. */
  async ends(): Promise<void> {
    const late = setTimeout(() => this.kill(), maxExitMs)
    const code = await this.exited
    clearTimeout(late)
    if (code !== 0) throw new Error(`Expected exit code 0 within ${maxExitMs} ms after close, got ${code ?? 'no exit'}`)
  }

  kill(): void {
    this.#process.kill('SIGKILL')
  }
}

const step = (text: string) => console.log(`ok  ${text}`)
const server = await startEmbedded()
try {
  execFileSync('npm', ['pack', '--ignore-scripts', '--silent', '--pack-destination', project], { cwd: root })
  const tarball = readdirSync(project).find((name) => name.endsWith('.tgz'))!
  writeFileSync(join(project, 'package.json'), '{ "private": true, "type": "module" }')
  execFileSync('npm', ['install', '--silent', '--no-audit', '--no-fund', `./${tarball}`], { cwd: project })
  for (const path of programs) copyFileSync(join(root, path), join(project, basename(path)))
  const url = await server.createDatabase('smoke')
  console.log(execFileSync(command, ['--version'], { encoding: 'utf8' }).split('\n')[0])

  const everything = new Program('everything.ts', url)
  await everything.prints('locks leases elections limits once shares schedules jobs')
  step('locks, leases, elections, limits, once, shares, schedules, jobs')
  await everything.ends()
  step('the process ends by itself after close')

  const holder = new Program('takeover.ts', 'holder', url)
  await holder.prints('holding')
  const successor = new Program('takeover.ts', 'successor', url)
  await successor.prints('waiting')
  const killedAt = performance.now()
  holder.kill()
  step(`after SIGKILL, another process gets the lock in ${Math.round((await successor.prints('lock')) - killedAt)} ms`)
  step(`and runs the job within ${Math.round((await successor.prints('job')) - killedAt)} ms`)
  await successor.prints('closed')
  await successor.ends()
  step('the successor ends by itself after close')
} finally {
  for (const program of started) program.kill()
  await server.stop()
  rmSync(project, { recursive: true, force: true })
}
