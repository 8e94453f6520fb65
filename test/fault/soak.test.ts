import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { typescript } from '../setup/typescript.js'
import { runsAll } from '../setup/variants.js'

const program = fileURLToPath(new URL('../../faults/soak/run.ts', import.meta.url))

interface Ended {
  readonly status: number
  readonly said: string
}

/** Half a day's work in seven short days. */
function soak(...options: string[]): Promise<Ended> {
  return new Promise((resolve) => {
    execFile(process.execPath, [...typescript, program, '--minutes', '0.67', ...options], (error, stdout, stderr) => {
      resolve({ status: error === null ? 0 : Number(error.code ?? -1), said: `${stdout}${stderr}` })
    })
  })
}

// What it shows depends on what else the machine does. So it is no part of `npm test`, which tests its judge alone (soak-judge.test.ts).
describe.runIf(runsAll)('a short soak', { timeout: 240_000 }, () => {
  test('finds everything flat', async () => {
    const { status, said } = await soak()
    expect(said).toContain('\nAll flat.')
    expect(status).toBe(0)
  })

  test.each([
    ['handles', /^- heap of the one that stays, after GC: grows$/m],
    ['rows', /^- rows of name: grows$/m],
  ])('tells what leaks: %s', async (leak, told) => {
    const { status, said } = await soak('--plant', leak)
    expect(said).toMatch(told)
    expect(status).toBe(1)
  })
})
