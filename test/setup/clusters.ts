// Clusters of an installed PostgreSQL with all programs: pg_dump, pg_restore and pg_upgrade. The embedded PostgreSQL has only the server.
import { execFile, execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, statSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished } from 'vitest'
import { type EmbeddedServer, startEmbedded } from '../../src/embedded/index.js'

const binDir = process.env.HOLDFAST_TEST_PG_BIN || '/usr/lib/postgresql/15/bin'
const programs = ['initdb', 'pg_dump', 'pg_restore', 'pg_upgrade', 'postgres']
const missing = programs.filter((program) => !existsSync(join(binDir, program)))

/** Whether programs are missing, for `describe.skipIf`. In this case, a warning lists them. */
export const withoutPrograms = missing.length > 0
if (withoutPrograms) {
  console.warn(
    `${binDir} has no ${missing.join(', ')} (install postgresql-15, or set HOLDFAST_TEST_PG_BIN): tests of backups are skipped.`,
  )
}

/** Creates a directory that the servers can access. Removed when the test has finished. */
export function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-clusters-'))
  chmodSync(directory, 0o777)
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  return directory
}

/** Stopped clusters with different system identifiers. They are removed with the temporary directory of the test run. */
const initialized: string[] = []

/** Number of new clusters by test. */
const startedByTest = new Map<string, number>()

/** Copies a stopped cluster, which uses less CPU time than initdb. Each cluster of a test has a different system identifier. */
async function copyCluster(dataDir: string): Promise<void> {
  const test = expect.getState().currentTestName!
  const place = startedByTest.get(test) ?? 0
  startedByTest.set(test, place + 1)
  if (initialized[place] === undefined) {
    const path = join(mkdtempSync(join(tmpdir(), 'holdfast-initialized-')), 'data')
    chmodSync(join(path, '..'), 0o755)
    await (await startEmbedded({ binDir, dataDir: path, settings: { fsync: 'off' } })).stop()
    initialized[place] = path
  }
  execFileSync('cp', ['-a', '--reflink=auto', `${initialized[place]}/.`, dataDir])
}

/** Starts the cluster in `dataDir`, or a new cluster if there is none. Stopped when the test has finished. */
export async function startCluster(
  options: { dataDir?: string; settings?: Record<string, string> } = {},
): Promise<EmbeddedServer> {
  const { dataDir = join(temporaryDirectory(), 'data'), settings } = options
  if (!existsSync(dataDir)) await copyCluster(dataDir)
  const server = await startEmbedded({ binDir, dataDir, settings: { fsync: 'off', ...settings } })
  onTestFinished(() => server.stop('immediate'))
  return server
}

/** Runs a program of PostgreSQL. Programs that refuse to run as root run as the owner of the directory `as`. */
export async function runProgram(program: string, args: readonly string[], as?: string): Promise<string> {
  const { uid, gid } = as ? statSync(as) : { uid: process.getuid!(), gid: process.getgid!() }
  const { stdout } = await promisify(execFile)(join(binDir, program), args, {
    uid,
    gid,
    ...(as && { cwd: join(as, '..') }),
    env: { PATH: process.env.PATH ?? '', LC_ALL: 'C' },
    maxBuffer: 2 ** 26,
  }).catch((error) => {
    throw new Error(`${program} ${args.join(' ')}\n${error.stdout}\n${error.stderr}`)
  })
  return stdout
}

/** Directory of the programs, which pg_upgrade needs as an argument. */
export const programsDirectory = binDir
