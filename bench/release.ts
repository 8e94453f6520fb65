// npm run bench:release [-- --against <folder of a package> --part jobs --rounds 9 --seconds 1]
//
// Compares this checkout with the last release, in alternating rounds in one process and on one server. Prints a warning for each figure that is
// more than 10 % lower. A warning does not fail the run, because the program does not know whether the machine has other load.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import type { Holdfast } from 'holdfast'
import { type Contestant, loops, ratio, runRounds, summary } from './measure.ts'
import { benchDatabase, circumstances, describeCircumstances } from './server.ts'
import { type Cell, table } from './table.ts'

type Package = typeof import('holdfast')

/** Lowest ratio that is not reported. */
const tolerated = 0.9

const { values } = parseArgs({
  options: {
    against: { type: 'string' },
    part: { type: 'string', default: '' },
    rounds: { type: 'string', default: '9' },
    seconds: { type: 'string', default: '1' },
  },
})
const rounds = Number(values.rounds)
const roundMs = Number(values.seconds) * 1_000

/** Installs the last release in a temporary folder. Returns undefined if there is none yet. */
function installRelease(folder: string): string | undefined {
  try {
    execFileSync('npm', ['view', 'holdfast', 'version'], { stdio: ['ignore', 'ignore', 'pipe'] })
  } catch (error) {
    if (String((error as { stderr?: Buffer }).stderr).includes('E404')) return undefined
    throw error
  }
  execFileSync(
    'npm',
    ['install', '--prefix', folder, '--ignore-scripts', '--no-audit', '--no-fund', 'holdfast@latest'],
    {
      stdio: 'ignore',
    },
  )
  return join(folder, 'node_modules/holdfast')
}

interface Figure {
  readonly name: string
  /** Creates the work of one version. */
  prepare(holdfast: Holdfast, module: Package): (ms: number) => ReturnType<Contestant['run']>
}

const jobsPerBatch = 1_000

const figures: readonly Figure[] = [
  ...[1, 64].map(
    (callers): Figure => ({
      name: `locks, ${callers} ${callers === 1 ? 'caller' : 'callers'}`,
      prepare: (holdfast) => (ms) =>
        loops(callers, ms, (caller) => holdfast.locks.acquire(`name:${caller}`).then((lock) => lock.release())),
    }),
  ),
  {
    name: 'leases, 64 callers',
    prepare: (holdfast) => (ms) =>
      loops(64, ms, (caller) => holdfast.leases.acquire(`name:${caller}`).then((lease) => lease.release())),
  },
  {
    name: 'permits, 64 callers',
    prepare: (holdfast) => (ms) =>
      loops(64, ms, () => holdfast.limits.acquire('permits', { max: 64 }).then((permit) => permit.release())),
  },
  {
    name: 'once, 64 callers',
    prepare: (holdfast) => {
      let count = 0
      return (ms) => loops(64, ms, () => holdfast.once.run(`key:${count++}`, () => null))
    },
  },
  ...[1, 32].map(
    (callers): Figure => ({
      name: `enqueue, ${callers} ${callers === 1 ? 'caller' : 'callers'}`,
      prepare: (holdfast, { defineJob }) => {
        const job = defineJob('enqueued', { queue: 'without-worker' })
        return (ms) => loops(callers, ms, () => holdfast.jobs.enqueue(job))
      },
    }),
  ),
  {
    name: `jobs, ${jobsPerBatch} per batch`,
    prepare: (holdfast, { defineJob }) => {
      let [left, done] = [0, () => {}]
      const job = defineJob('run', {
        run: (_input: number) => {
          if (--left === 0) done()
        },
      })
      holdfast.jobs.work([job], { concurrency: 100 })
      const inputs = Array.from({ length: jobsPerBatch }, (_, input) => input)
      return (ms) =>
        loops(1, ms, async () => {
          left = jobsPerBatch
          const ended = new Promise<void>((resolve) => {
            done = resolve
          })
          await holdfast.jobs.enqueueMany(job, inputs)
          await ended
        })
    },
  },
]

const temporary = mkdtempSync(join(tmpdir(), 'holdfast-release-'))
try {
  const release = values.against ? resolve(values.against) : installRelease(temporary)
  if (release) await compareWith(release)
  else console.log('Holdfast has not been released yet, so there is nothing to compare with.')
} finally {
  rmSync(temporary, { recursive: true })
}

async function compareWith(release: string) {
  const server = await benchDatabase()
  const folders = { checkout: fileURLToPath(new URL('..', import.meta.url)), release }
  const versions = await Promise.all(
    Object.entries(folders).map(async ([name, folder]) => {
      const database = await benchDatabase({ on: server.url })
      const module: Package = await import(pathToFileURL(join(folder, 'dist/index.js')).href)
      const holdfast = await module.Holdfast.open({ url: database.url, namespace: 'bench' })
      const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
      return { name, version, module, holdfast }
    }),
  )
  try {
    const [checkout, released] = versions.map(({ name, version }) => `${name} (${version})`)
    console.log(`${describeCircumstances(await circumstances(server.url))}\n`)
    const rows: Cell[][] = []
    for (const { name, prepare } of figures.filter((one) => one.name.includes(values.part))) {
      console.error(name)
      const contestants = versions.map((one) => ({ name: one.name, run: prepare(one.holdfast, one.module) }))
      const outcomes = await runRounds(contestants, { rounds, roundMs })
      const [ours, theirs] = [outcomes.checkout, outcomes.release]
      rows.push([name, summary(ours).perSecond, summary(theirs).perSecond, ratio(ours, theirs)])
    }
    console.log(table(['calls per second', checkout!, released!, 'ratio'], rows))
    for (const [name, , , found] of rows) {
      if (Number(found) >= tolerated) continue
      const lower = Math.round((1 - Number(found)) * 100)
      // In this form, GitHub shows the line on the page of the run.
      const prefix = process.env.GITHUB_ACTIONS ? '::warning title=Benchmark::' : 'Warning: '
      console.log(`${prefix}${name}: ${lower} % less than ${released}`)
    }
  } finally {
    await Promise.all(versions.map(({ holdfast }) => holdfast.close()))
    await server.close()
  }
}
