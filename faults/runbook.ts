// Runs the commands of a runbook in docs/ as they are printed there.
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { delimiter } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

export interface RunbookStep {
  text: string
  commands: string[]
}

/** Reads the numbered steps of a section of a page. */
export function readRunbook(page: string, section: string): RunbookStep[] {
  const [, text] = readFileSync(new URL(`../docs/${page}`, import.meta.url), 'utf8').split(`\n## ${section}\n`)
  if (!text) throw new Error(`${page} has no section "${section}"`)
  const [, ...steps] = text.split(/^## /m)[0]!.split(/^\d+\. /m)
  return steps.map((step) => ({
    text: step,
    commands: [...step.matchAll(/```sh\n(.*?)```/gs)].map(([, lines]) => lines!),
  }))
}

export interface RunOptions {
  /** Directory of PostgreSQL's programs. */
  programs: string
  env: Record<string, string>
  /** User who runs the commands. By default, the user of this process. */
  user?: { uid: number; gid: number }
}

/** Runs the commands in bash, which stops at the first command that fails. `holdfast` is the command line of the built package. */
export async function runCommands(commands: string, { programs, env, user }: RunOptions): Promise<string> {
  const holdfast = `holdfast() { '${process.execPath}' '${fileURLToPath(new URL('../dist/cli/bin.js', import.meta.url))}' "$@"; }\n`
  const { stdout } = await promisify(execFile)(
    'bash',
    ['--norc', '-euo', 'pipefail', '-c', holdfast + commands],
    // Without its own directory, a user who cannot read this one would get a warning from every program.
    {
      ...user,
      cwd: '/',
      env: { ...env, PATH: programs + delimiter + process.env.PATH, LC_ALL: 'C' },
      timeout: 100_000,
    },
  ).catch((error) => {
    // The doctor has found something that its report explains.
    if (error.code === 3) return error
    throw new Error(`A step of the runbook failed:\n${commands}\n${error.stdout}\n${error.stderr}`)
  })
  return stdout
}
