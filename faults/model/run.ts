// npm run model [-- --short] [--mutants [bug…]]
//
// Explores the models of the protocols to the deep bound, or to the short one. With --mutants, checks that each planted bug is found. The exit
// status is 1 if a rule is violated, or if a bug is not found.
import { parseArgs } from 'node:util'
import { deepBound, type Exploration, mutants, shortBound } from './bounds.ts'
import type { Result } from './explore.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { mutants: { type: 'boolean', default: false }, short: { type: 'boolean', default: false } },
})

function printStory({ violation }: Result) {
  if (!violation) return
  console.log(`\nViolated: ${violation.rule}.`)
  for (const [at, { text, shows }] of violation.story.entries()) {
    console.log(`${String(at + 1).padStart(3)}. ${text}\n       ${shows}`)
  }
  console.log()
}

function run(exploration: Exploration): Result {
  const from = performance.now()
  const result = exploration.run()
  const seconds = ((performance.now() - from) / 1000).toFixed(1)
  const { states, steps, depth, isComplete, violation } = result
  const counts = `${states.toLocaleString('en')} states, ${steps.toLocaleString('en')} steps, depth ${depth}`
  const end = violation ? `violated after ${violation.story.length} steps` : isComplete ? 'complete' : 'up to the bound'
  console.log(`${exploration.bug ?? exploration.name}: ${counts}, ${end}, ${seconds} s`)
  return result
}

if (values.mutants) {
  const chosen = mutants().filter(({ bug }) => positionals.length === 0 || positionals.includes(bug!))
  const results = chosen.map(run)
  // A bug that was named shows its story.
  if (positionals.length > 0) for (const result of results) printStory(result)
  process.exitCode = results.length > 0 && results.every(({ violation }) => violation) ? 0 : 1
} else {
  const results = (values.short ? shortBound() : deepBound()).map(run)
  for (const result of results) printStory(result)
  process.exitCode = results.some(({ violation }) => violation) ? 1 : 0
}
