import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { mutations } from '../../faults/mutations.js'
import { randomFrom } from '../property/random.mjs'
import { seedOf } from '../property/seed.js'
import { isInHurry } from '../setup/hurry.js'

// The suite of faults, for a moment: `npm run faults` is for longer. And whether its judge sees one of the bugs that can be planted.
const program = fileURLToPath(new URL('../../faults/run.js', import.meta.url))

/** What it says; with its report, when it ends otherwise than with 0. */
async function run(...words: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, [program, ...words]).catch((error) => {
    throw new Error(`${words.join(' ')}\n${error.stdout}\n${error.stderr}`)
  })
  return stdout
}

test('everything at once, under every fault', { timeout: 0 }, async () => {
  const seed = seedOf('everything under faults')
  const report = await run('--seconds', '12', '--seed', String(seed), '--quiet')
  console.log(report)
  expect(report).toContain('0 violations')
})

test.skipIf(isInHurry)('a planted bug is found', { timeout: 0 }, async () => {
  const seed = seedOf('a planted bug')
  const { name } = randomFrom(seed).pick(mutations)
  const report = await run('--mutants', name, '--seed', String(seed))
  expect(report).toMatch(/^found {2}/)
  console.log(report)
})

test('every bug can still be planted', () => {
  for (const { name, edits } of mutations) {
    for (const [file, from, to] of edits) {
      const text = readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')
      expect(text.replace(from, to) === text, `${name}: ${file}`).toBe(false)
    }
  }
})
