import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { mutations } from '../../faults/mutations.ts'
import { randomFrom } from '../property/random.ts'
import { fixedSeedOf } from '../property/seed.js'
import { typescript } from '../setup/typescript.js'
import { runsAll } from '../setup/variants.js'

// A short run of the fault suite, and a test whether its judge finds one planted bug. `npm run faults` runs for longer.
const program = fileURLToPath(new URL('../../faults/run.ts', import.meta.url))

/** Runs the suite and returns its report. Throws with the report if the exit code is not 0. */
async function run(withinMs: number, ...args: string[]): Promise<string> {
  const limits = { timeout: withinMs, killSignal: 'SIGKILL' } as const
  const { stdout } = await promisify(execFile)(process.execPath, [...typescript, program, ...args], limits).catch(
    (error) => {
      throw new Error(
        `${args.join(' ')} (${error.killed ? 'killed after the timeout' : error.code})\n${error.stdout}\n${error.stderr}`,
      )
    },
  )
  return stdout
}

test('the fault suite finds no violation while all rooms run under random faults', { timeout: 0 }, async () => {
  const seed = fixedSeedOf('everything under faults')
  const report = await run(300_000, '--seconds', runsAll ? '12' : '6', '--seed', String(seed), '--quiet')
  console.log(report)
  expect(report).toContain('0 violations')
})

test.skipIf(!runsAll)('the judge of the fault suite finds a planted bug', { timeout: 0 }, async () => {
  const seed = fixedSeedOf('a planted bug')
  const { name } = randomFrom(seed).pick(mutations)
  const report = await run(1_000_000, '--mutants', name, '--seed', String(seed))
  expect(report).toMatch(/^found {2}/)
  console.log(report)
})

test('every mutation changes one place of the built package, or every place if its pattern is global', () => {
  for (const { name, edits } of mutations) {
    for (const [file, from, to] of edits) {
      const text = readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')
      const isGlobal = typeof from !== 'string' && from.global
      expect(text.replace(from, to) === text, `${name}: ${file} has no ${from}`).toBe(false)
      const rest = text.replace(from, '')
      expect(isGlobal || rest.replace(from, '') === rest, `${name}: ${file} has ${from} more than once`).toBe(true)
    }
  }
})
