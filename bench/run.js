// npm run bench [-- <what>…] [-- --rounds 7 --seconds 1 --delayed 1000000 --json]
//
// Each bench runs Holdfast and its peers in one run, in turns. Goals are printed beside the ratios, never enforced:
// whether a machine is quiet enough to be judged by is for people to say.
import { parseArgs } from 'node:util'
import { benchDatabase, circumstances } from './server.js'

const benches = {
  locks: () => import('./locks.js'),
  leases: () => import('./leases.js'),
  limits: () => import('./limits.js'),
  once: () => import('./once.js'),
  jobs: () => import('./jobs.js'),
  schedules: () => import('./schedules.js'),
  idle: () => import('./idle.js'),
  takeover: () => import('./takeover.js'),
  growth: () => import('./growth.js'),
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '1' },
    delayed: { type: 'string', default: '1000000' },
    json: { type: 'boolean', default: false },
  },
})
const unknown = positionals.find((name) => !Object.hasOwn(benches, name))
if (unknown) {
  console.error(`There is no bench "${unknown}": there are ${Object.keys(benches).join(', ')}`)
  process.exit(2)
}

// A line that changes on a terminal, lines elsewhere.
const progress = (text) => process.stderr.write(process.stderr.isTTY ? `\r\x1b[K${text}` : text && `${text}\n`)
const options = {
  rounds: Number(values.rounds),
  roundMs: Number(values.seconds) * 1_000,
  delayed: Number(values.delayed),
  progress,
}
const report = {}
// What has been measured is said at once: a later bench that fails must not take it along.
const say = (text) => (values.json ? console.error : console.log)(`${text}\n`)

const database = await benchDatabase()
try {
  report.circumstances = await circumstances(database.url)
  say(describe(report.circumstances))
  for (const name of positionals.length > 0 ? positionals : Object.keys(benches)) {
    const { run, show } = await benches[name]()
    report[name] = await run(database.url, options)
    progress('')
    say(show(report[name]))
  }
} finally {
  progress('')
  await database.close()
  if (values.json) console.log(JSON.stringify(report, null, 2))
}

function describe({ at, cpus, node, postgresql, server, settings, drivers }) {
  const pairs = (object) => Object.entries(object).map(([name, value]) => `${name} ${value}`)
  return [
    `${at}: ${cpus}, Node ${node}, PostgreSQL ${postgresql} (${server}), ${pairs(drivers).join(', ')}`,
    `Server: ${pairs(settings).join(', ')}`,
    `Medians of ${options.rounds} rounds of ${options.roundMs / 1_000} s in turns; a ratio is the median of the rounds' ratios`,
  ].join('\n')
}
