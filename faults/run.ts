// npm run faults [-- --seconds 60 --seed 1 --size 5 --expiry 2 --every 0.9 --patience 75 --faults kill,cut --rooms locks,jobs --json --quiet]
// npm run faults -- --mutants [name…]
//
// Torments a fleet and proves what must always be true; or, with mutants, whether that proof finds the bugs that are planted. Ends with 1
// when something was not true, or a bug was not found.
import { parseArgs } from 'node:util'
import { torment } from './cluster.ts'
import { huntAll } from './mutants.ts'
import { faultNames } from './plan.ts'
import { show } from './report.ts'
import { works } from './work/index.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seconds: { type: 'string', default: '60' },
    seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 31)) },
    expiry: { type: 'string', default: '2' },
    every: { type: 'string', default: '0.9' },
    size: { type: 'string', default: '5' },
    faults: { type: 'string' },
    rooms: { type: 'string' },
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
  console.error(`There is no ${what} "${unknown}": there are ${known.join(', ')}`)
  process.exit(2)
}

const asked = {
  seconds: Number(values.seconds),
  seed: Number(values.seed),
  size: Number(values.size),
  expiryMs: 1_000 * Number(values.expiry),
  everyMs: 1_000 * Number(values.every),
  patienceMs: 1_000 * Number(values.patience),
  among: listOf(values.faults, faultNames, 'fault'),
  only: listOf(values.rooms, Object.keys(works), 'room'),
}
console.error(`seed ${asked.seed}`)
if (values.mutants) {
  const outcomes = await huntAll(positionals, asked.seed, (line) => console.log(line))
  process.exit(outcomes.every(({ found }) => found) ? 0 : 1)
}
const outcome = await torment({ ...asked, say: values.quiet ? () => {} : (line: string) => console.error(line) })
const text = values.json ? JSON.stringify(outcome, null, 2) : show(outcome)
// Whoever reads by a pipe must have all of it before the end.
process.stdout.write(`${text}\n`, () => process.exit(outcome.violations.length > 0 ? 1 : 0))
