// Measures the cold start: a new process that has never connected imports the package, opens an instance and acquires its first lock or
// lease. A serverless function pays this time for each new process. Each start runs in plain Node.js, without the loader for TypeScript.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { Holdfast } from 'holdfast'
import { median, type Options } from './measure.ts'
import { table } from './table.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

const holdfast = (options: string, acquire: string) => `
const { Holdfast } = await import('holdfast')
lap()
const instance = await Holdfast.open({ url, ${options} })
lap()
await instance.${acquire}('cold ' + process.pid)
lap()
await instance.close()`

const starts: Record<string, string> = {
  'by hand: pg.Client and pg_try_advisory_lock': `
const { default: pg } = await import('pg')
lap()
const client = new pg.Client({ connectionString: url })
await client.connect()
lap()
await client.query('select pg_try_advisory_lock($1)', [process.pid])
lap()
await client.end()`,
  'holdfast: first lock': holdfast('', 'locks.acquire'),
  "holdfast: first lease, anchor: 'none'": holdfast("anchor: 'none'", 'leases.acquire'),
}

const program = (start: string) => `
const url = process.argv[1]
const laps = [performance.now()]
const lap = () => laps.push(performance.now())
${start}
console.log(JSON.stringify(laps.slice(1).map((at, n) => at - laps[n])))`

export interface ColdStart {
  what: string
  importMs: number
  openMs: number
  acquireMs: number
  totalMs: number
}

export async function run(url: string, { rounds, progress }: Options) {
  // The schema is current, as it is for all processes but the first.
  await (await Holdfast.open({ url })).close()
  const taken = new Map<string, number[][]>(Object.keys(starts).map((what) => [what, []]))
  for (let round = 0; round < 3 * rounds; round++) {
    for (const [what, start] of Object.entries(starts)) {
      progress(`cold: round ${round + 1}, ${what}`)
      taken.get(what)!.push(await startOnce(url, start))
    }
  }
  const outcomes: ColdStart[] = [...taken].map(([what, all]) => {
    const of = (at: number) => median(all.map((laps) => laps[at]!))
    const totalMs = median(all.map((laps) => laps.reduce((sum, ms) => sum + ms, 0)))
    return { what, importMs: of(0), openMs: of(1), acquireMs: of(2), totalMs }
  })
  return { starts: 3 * rounds, outcomes }
}

async function startOnce(url: string, start: string): Promise<number[]> {
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program(start), url], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let printed = ''
  child.stdout.on('data', (chunk: Buffer) => {
    printed += chunk
  })
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`A cold start ended with exit code ${code}`)
  return JSON.parse(printed)
}

const short = (ms: number) => Number(ms.toPrecision(3))

export function show({ starts, outcomes }: Awaited<ReturnType<typeof run>>) {
  return table(
    [`Cold start, medians of ${starts} new processes`, 'import ms', 'open ms', 'acquire ms', 'total ms'],
    outcomes.map((one) => [one.what, short(one.importMs), short(one.openMs), short(one.acquireMs), short(one.totalMs)]),
  )
}
