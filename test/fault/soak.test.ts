import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { typescript } from '../setup/typescript.js'
import { runsAll } from '../setup/variants.js'

const program = fileURLToPath(new URL('../../faults/soak/run.ts', import.meta.url))

interface SoakResult {
  readonly status: number
  readonly output: string
}

/** Runs the soak test with half a day's work in seven short days. */
function soak(...options: string[]): Promise<SoakResult> {
  return new Promise((resolve) => {
    execFile(process.execPath, [...typescript, program, '--minutes', '0.67', ...options], (error, stdout, stderr) => {
      resolve({ status: error === null ? 0 : Number(error.code ?? -1), output: `${stdout}${stderr}` })
    })
  })
}

// The result depends on the other load of the machine. So these tests are not part of `npm test`, which tests only the rule (soak-judge.test.ts).
describe.runIf(runsAll)('short soak tests', { timeout: 240_000 }, () => {
  test('a short soak test reports that all series are flat', async () => {
    const { status, output } = await soak()
    expect(output).toContain('\nAll flat.')
    expect(status).toBe(0)
  })

  test.each([
    ['handles', /^- heap of the long-running process, after GC: grows$/m],
    ['rows', /^- rows of name: grows$/m],
  ])('a short soak test reports the planted leak of %s', async (leak, line) => {
    const { status, output } = await soak('--plant', leak)
    expect(output).toMatch(line)
    expect(status).toBe(1)
  })
})
