// npm run faults -- --mutants: whether the judge finds the bugs of mutations.ts. Each is planted in a copy of the built package, which
// then meets the same torment, until it is found, a few times over.
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
/** After so many runs a bug counts as not found, however slow the machine is. */
const maxRuns = 4
/** A run of twenty seconds that takes so long hangs. */
const longestMs = 240_000

/** Plants one bug and looks for it. Answers with what was found. */
export async function hunt({ name, edits, only, among, expiry = 2, hangs = false }: Mutation, seed: number) {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-mutant-'))
  try {
    for (const part of ['dist', 'faults', 'package.json', 'test/property/random.ts', 'test/property/hostile.ts']) {
      cpSync(join(root, part), join(folder, part), { recursive: true })
    }
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
    for (const [file, from, to] of edits) plant(join(folder, file), from, to, name)
    const from = performance.now()
    let found: Violation | undefined
    let runs = 0
    while (!found && runs < maxRuns) {
      const words = [
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
        only.join(),
        '--faults',
        among.join(),
      ]
      found = await torment(folder, words, hangs)
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

/** The first violation, if there is one. That something has not come to its end in time counts only for a bug that `hangs`. */
async function torment(folder: string, words: string[], hangs: boolean) {
  const program = [...process.execArgv, join(folder, 'faults/run.ts')]
  const run = promisify(execFile)(process.execPath, [...program, ...words, '--json', '--quiet'], {
    maxBuffer: 2 ** 26,
    timeout: longestMs,
    killSignal: 'SIGKILL',
  })
  const { stdout, stderr } = await run.catch((error) => error)
  // Whatever went wrong before there was anything to judge.
  if (!stdout?.startsWith('{')) throw new Error(`The faults came to no judgement: ${words.join(' ')}\n${stderr}`)
  const { violations, unrest }: Outcome = JSON.parse(stdout)
  return violations.find(({ says }) => hangs || !unrest.includes(says))
}

export async function huntAll(names: string[], seed: number, say: (line: string) => void) {
  const outcomes: Awaited<ReturnType<typeof hunt>>[] = []
  for (const mutation of mutations.filter(
    ({ name }) => names.length === 0 || names.some((one) => name.includes(one)),
  )) {
    const outcome = await hunt(mutation, seed)
    outcomes.push(outcome)
    const { name, found, runs, tookMs } = outcome
    say(
      `${found ? 'found' : 'MISSED'}  ${(tookMs / 1_000).toFixed(0).padStart(3)} s, ${runs} ${runs === 1 ? 'run ' : 'runs'}  ${name}: ${found ? `${found.promise}: ${found.says}` : 'nothing'}`,
    )
  }
  return outcomes
}
