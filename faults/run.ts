// npm run faults [-- --seconds 60 --seed 1 --size 5 --expiry 2 --every 0.9 --patience 75 --faults kill,cut --rooms locks,jobs --json --quiet]
// npm run faults -- --upgrade-from /usr/lib/postgresql/15/bin
// npm run faults -- --instances 10 --pause 120
// npm run faults -- --leaders 12
// npm run faults -- --mutants [name…]
//
// Injects faults into a fleet and checks the guarantees. With --upgrade-from, upgrades
// PostgreSQL from this version while the fleet is working. With --instances, each process has several instances, which pause up to this
// number of seconds. With --leaders, changes the leader of a Patroni cluster. With --mutants, tests whether these checks find planted bugs.
// The exit status is 1 if a guarantee was violated or a bug was not found.
import { parseArgs } from 'node:util'
import { runFaults } from './cluster.ts'
import { findBugs } from './mutants.ts'
import { faultNames } from './plan.ts'
import { formatReport } from './report.ts'
import { workloads } from './work/index.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seconds: { type: 'string', default: '60' },
    seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 31)) },
    expiry: { type: 'string', default: '2' },
    every: { type: 'string', default: '0.9' },
    size: { type: 'string', default: '5' },
    instances: { type: 'string', default: '1' },
    pause: { type: 'string', default: '0.012' },
    leaders: { type: 'string' },
    faults: { type: 'string' },
    rooms: { type: 'string' },
    'upgrade-from': { type: 'string' },
    mutants: { type: 'boolean', default: false },
    patience: { type: 'string', default: '75' },
    json: { type: 'boolean', default: false },
    quiet: { type: 'boolean', default: false },
  },
})

function listOf(given: string | undefined, known: string[], what: string) {
  const list = given?.split(',')
  const unknown = list?.find((one) => !known.includes(one))
  if (unknown === undefined) return list
  console.error(`Unknown ${what} "${unknown}". Known: ${known.join(', ')}`)
  process.exit(2)
}

const options = {
  seconds: Number(values.seconds),
  seed: Number(values.seed),
  size: Number(values.size),
  instances: Number(values.instances),
  pauseMs: 1_000 * Number(values.pause),
  leaderChanges: values.leaders === undefined ? undefined : Number(values.leaders),
  expiryMs: 1_000 * Number(values.expiry),
  everyMs: 1_000 * Number(values.every),
  patienceMs: 1_000 * Number(values.patience),
  onlyFaults: listOf(values.faults, faultNames, 'fault'),
  upgradeFrom: values['upgrade-from'],
  onlyRooms: listOf(values.rooms, Object.keys(workloads), 'room'),
}
console.error(`seed ${options.seed}`)
// So that an interrupted run also unmounts its disk.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))
if (values.mutants) {
  const outcomes = await findBugs(positionals, options.seed, (line) => console.log(line))
  process.exit(outcomes.every(({ found }) => found) ? 0 : 1)
}
const outcome = await runFaults({ ...options, log: values.quiet ? () => {} : (line: string) => console.error(line) })
const text = values.json ? JSON.stringify(outcome, null, 2) : formatReport(outcome)
// The process must not exit before a pipe's reader has received the whole report.
process.stdout.write(`${text}\n`, () => process.exit(outcome.violations.length > 0 ? 1 : 0))
