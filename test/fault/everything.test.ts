import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { mutations } from '../../faults/mutations.ts'
import { randomFrom } from '../property/random.ts'
import { fixedSeedOf } from '../property/seed.js'
import { typescript } from '../setup/typescript.js'
import { isInHurry } from '../setup/variants.js'

// The suite of faults, for a moment: `npm run faults` is for longer. And whether its judge sees one of the bugs that can be planted.
const program = fileURLToPath(new URL('../../faults/run.ts', import.meta.url))

/** What it says; with its report, when it ends otherwise than with 0. */
async function run(withinMs: number, ...words: string[]): Promise<string> {
  const limits = { timeout: withinMs, killSignal: 'SIGKILL' } as const
  const { stdout } = await promisify(execFile)(process.execPath, [...typescript, program, ...words], limits).catch(
    (error) => {
      throw new Error(
        `${words.join(' ')} (${error.killed ? 'killed, for it hung' : error.code})\n${error.stdout}\n${error.stderr}`,
      )
    },
  )
  return stdout
}

test('everything at once, under every fault', { timeout: 0 }, async () => {
  const seed = fixedSeedOf('everything under faults')
  const report = await run(300_000, '--seconds', '12', '--seed', String(seed), '--quiet')
  console.log(report)
  expect(report).toContain('0 violations')
})

test.skipIf(isInHurry)('a planted bug is found', { timeout: 0 }, async () => {
  const seed = fixedSeedOf('a planted bug')
  const { name } = randomFrom(seed).pick(mutations)
  const report = await run(1_000_000, '--mutants', name, '--seed', String(seed))
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
