// npm run faults -- --mutants: tests whether the judge finds the bugs in mutations.ts. Each bug is planted in a copy of
// the built package. Then the fault suite runs on this copy up to `maxRuns` times, until the judge finds the bug.
import { execFile } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Violation } from './check/index.ts'
import type { Outcome } from './cluster.ts'
import { type Mutation, mutations } from './mutations.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
/** Maximum number of runs per bug. */
const maxRuns = 4
/** Time after which a run of 20 seconds counts as hanging. */
const maxRunMs = 240_000

/** Plants one bug and runs the fault suite until the judge finds it. Returns the violation, if any. */
export async function findBug(
  { name, edits, onlyRooms, onlyFaults, expiry = 2, hangs = false }: Mutation,
  seed: number,
) {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-mutant-'))
  try {
    const tests = ['test/property/random.ts', 'test/property/hostile.ts']
    for (const part of ['dist', 'faults', 'package.json', 'examples/cluster', ...tests]) {
      cpSync(join(root, part), join(folder, part), { recursive: true })
    }
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
    for (const [file, from, to] of edits) plant(join(folder, file), from, to, name)
    const from = performance.now()
    let found: Violation | undefined
    let runs = 0
    while (!found && runs < maxRuns) {
      const args = [
        '--seconds',
        '20',
        '--every',
        '0.4',
        '--patience',
        '25',
        '--expiry',
        String(expiry),
        '--seed',
        String(seed + runs++),
        '--rooms',
        onlyRooms.join(),
        '--faults',
        onlyFaults.join(),
      ]
      found = await firstViolation(folder, args, hangs)
    }
    return { name, found, runs, tookMs: Math.round(performance.now() - from) }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function plant(file: string, from: string | RegExp, to: string, name: string) {
  const text = readFileSync(file, 'utf8')
  const changed = text.replace(from, to)
  if (changed === text) throw new Error(`"${name}" cannot be planted: ${file} has no ${from}`)
  writeFileSync(file, changed)
}

/** Runs the fault suite and returns the first violation. Unfinished work counts only for a bug that `hangs`. */
async function firstViolation(folder: string, args: string[], hangs: boolean) {
  const program = [...process.execArgv, join(folder, 'faults/run.ts')]
  const run = promisify(execFile)(process.execPath, [...program, ...args, '--json', '--quiet'], {
    maxBuffer: 2 ** 26,
    timeout: maxRunMs,
    killSignal: 'SIGKILL',
  })
  const { stdout, stderr } = await run.catch((error) => error)
  // The suite failed before the judge ran.
  if (!stdout?.startsWith('{'))
    throw new Error(`The fault suite failed before the judge ran: ${args.join(' ')}\n${stderr}`)
  const { violations, unfinishedWork }: Outcome = JSON.parse(stdout)
  return violations.find(({ text }) => hangs || !unfinishedWork.includes(text))
}

export async function findBugs(names: string[], seed: number, log: (line: string) => void) {
  const outcomes: Awaited<ReturnType<typeof findBug>>[] = []
  for (const mutation of mutations.filter(
    ({ name }) => names.length === 0 || names.some((one) => name.includes(one)),
  )) {
    const outcome = await findBug(mutation, seed)
    outcomes.push(outcome)
    const { name, found, runs, tookMs } = outcome
    log(
      `${found ? 'found' : 'MISSED'}  ${(tookMs / 1_000).toFixed(0).padStart(3)} s, ${runs} ${runs === 1 ? 'run ' : 'runs'}  ${name}: ${found ? `${found.guarantee}: ${found.text}` : 'nothing'}`,
    )
  }
  return outcomes
}
