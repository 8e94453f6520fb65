// npm run bench [-- <what>…] [-- --rounds 7 --seconds 1 --delayed 1000000 --minutes 15 --kills 200 --json]
//
// Each bench runs Holdfast and its peers in one run, in turns. Goals are printed beside the ratios, never enforced:
// whether a machine is quiet enough to be judged by is for people to say.
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
  takeover: () => import('./takeover.ts'),
  growth: () => import('./growth.ts'),
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '1' },
    delayed: { type: 'string', default: '1000000' },
    minutes: { type: 'string', default: '15' },
    kills: { type: 'string', default: '200' },
    json: { type: 'boolean', default: false },
  },
})
const unknown = positionals.find((name) => !Object.hasOwn(benches, name))
if (unknown) {
  console.error(`There is no bench "${unknown}": there are ${Object.keys(benches).join(', ')}`)
  process.exit(2)
}

// A line that changes on a terminal, lines elsewhere.
const progress = (text: string) =>
  void process.stderr.write(process.stderr.isTTY ? `\r\x1b[K${text}` : text && `${text}\n`)
const options: Options = {
  rounds: Number(values.rounds),
  roundMs: Number(values.seconds) * 1_000,
  delayed: Number(values.delayed),
  minutes: Number(values.minutes),
  kills: Number(values.kills),
  progress,
}
const medians = `Medians of ${options.rounds} rounds of ${options.roundMs / 1_000} s in turns; a ratio is the median of the rounds' ratios`
const report: Record<string, unknown> = {}
// What has been measured is said at once: a later bench that fails must not take it along.
const say = (text: string) => (values.json ? console.error : console.log)(`${text}\n`)

const database = await benchDatabase()
try {
  const found = await circumstances(database.url)
  report.circumstances = found
  say(`${describeCircumstances(found)}\n${medians}`)
  for (const name of positionals.length > 0 ? positionals : Object.keys(benches)) {
    const { run, show } = await benches[name]!()
    report[name] = await run(database.url, options)
    progress('')
    say(show(report[name] as never))
  }
} finally {
  progress('')
  await database.close()
  if (values.json) console.log(JSON.stringify(report, null, 2))
}
