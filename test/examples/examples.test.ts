import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'

const directory = new URL('../../examples/', import.meta.url)
const run = promisify(execFile)

describe('every example prints what it says', () => {
  for (const file of readdirSync(directory).filter((name) => name.endsWith('.js') && name !== 'database.js')) {
    describe(file, () => {
      let database: FreshDatabase
      beforeAll(async () => {
        database = await freshDatabase()
      })
      afterAll(() => database.drop())

      it('runs', async () => {
        const path = fileURLToPath(new URL(file, directory))
        const [, promised] = readFileSync(path, 'utf8').split('// prints:\n')
        const { stdout } = await run(process.execPath, [path], { env: { ...process.env, DATABASE_URL: database.url } })
        expect(stdout).toBe(promised!.replace(/^\/\/ ?/gm, ''))
      })
    })
  }
})
