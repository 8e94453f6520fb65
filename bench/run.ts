// npm run bench [-- <suite>…] [-- --rounds 7 --seconds 1 --delayed 1000000 --minutes 15 --kills 200 --part drained --json]
//
// Each suite runs Holdfast and its peers in one run, in alternating rounds. The tables print goals next to the ratios. A missed goal does not
// fail the run, because the program does not know whether the machine has other load.
import { parseArgs } from 'node:util'
import type { Options } from './measure.ts'
import { benchDatabase, circumstances, describeCircumstances } from './server.ts'

interface Bench {
  run(url: string, options: Options): Promise<unknown>
  show(report: never): string
}

const benches: Record<string, () => Promise<Bench>> = {
  locks: () => import('./locks.ts'),
  leases: () => import('./leases.ts'),
  limits: () => import('./limits.ts'),
  once: () => import('./once.ts'),
  jobs: () => import('./jobs.ts'),
  batches: () => import('./batches.ts'),
  curves: () => import('./curves.ts'),
  trickle: () => import('./trickle.ts'),
  analytics: () => import('./analytics.ts'),
  schedules: () => import('./schedules.ts'),
  idle: () => import('./idle.ts'),
  cold: () => import('./cold.ts'),
  takeover: () => import('./takeover.ts'),
  growth: () => import('./growth.ts'),
  pages: () => import('./pages.ts'),
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '1' },
    delayed: { type: 'string', default: '1000000' },
    minutes: { type: 'string', default: '15' },
    kills: { type: 'string', default: '200' },
    part: { type: 'string', default: '' },
    json: { type: 'boolean', default: false },
  },
})
const unknown = positionals.find((name) => !Object.hasOwn(benches, name))
if (unknown) {
  console.error(`There is no suite "${unknown}". The suites are ${Object.keys(benches).join(', ')}.`)
  process.exit(2)
}

// On a terminal, each progress text replaces the previous one. Elsewhere, each text is a line.
const progress = (text: string) =>
  void process.stderr.write(process.stderr.isTTY ? `\r\x1b[K${text}` : text && `${text}\n`)
// Each suite's tables are printed when the suite ends, so that a later suite that fails does not lose them.
const print = (text: string) => (values.json ? console.error : console.log)(`${text}\n`)
const options: Options = {
  rounds: Number(values.rounds),
  roundMs: Number(values.seconds) * 1_000,
  delayed: Number(values.delayed),
  minutes: Number(values.minutes),
  kills: Number(values.kills),
  part: values.part,
  progress,
  print,
}
const medians = `Medians of ${options.rounds} alternating rounds of ${options.roundMs / 1_000} s; a ratio is the median of the ratios of each round`
const report: Record<string, unknown> = {}

const database = await benchDatabase()
try {
  const found = await circumstances(database.url)
  report.circumstances = found
  print(`${describeCircumstances(found)}\n${medians}`)
  for (const name of positionals.length > 0 ? positionals : Object.keys(benches)) {
    const { run, show } = await benches[name]!()
    report[name] = await run(database.url, options)
    progress('')
    print(show(report[name] as never))
  }
} finally {
  progress('')
  await database.close()
  if (values.json) console.log(JSON.stringify(report, null, 2))
}
