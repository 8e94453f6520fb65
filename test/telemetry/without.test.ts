// OpenTelemetry is optional. Without it, only `instrument` throws. Runs the compiled package.
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { databaseUrl } from '../setup/instances.js'

const project = fileURLToPath(new URL('../..', import.meta.url))

test('instrument throws a UsageError without @opentelemetry/api, and health and metrics work', {
  timeout: 30_000,
}, async () => {
  const root = mkdtempSync(join(tmpdir(), 'holdfast-without-'))
  onTestFinished(() => rmSync(root, { recursive: true }))
  const modules = join(root, 'node_modules')
  mkdirSync(join(modules, 'holdfast'), { recursive: true })
  for (const part of ['dist', 'package.json']) {
    cpSync(join(project, part), join(modules, 'holdfast', part), { recursive: true })
  }
  for (const dependency of ['croner', 'pg'])
    symlinkSync(join(project, 'node_modules', dependency), join(modules, dependency))
  const program = `
    import { Holdfast } from 'holdfast'
    import { healthHandler, instrument, metricsText } from 'holdfast/telemetry'
    const holdfast = await Holdfast.open({ url: process.env.DATABASE_URL })
    const answers = { health: (await healthHandler(holdfast)(new Request('http://localhost/ready'))).status }
    answers.metrics = (await metricsText(holdfast)).includes('holdfast_instance_up 1')
    try {
      instrument(holdfast)
    } catch ({ code, message, hint }) {
      answers.error = { code, message, hint }
    }
    console.log(JSON.stringify(answers))
    await holdfast.close()`
  const output = execFileSync(process.execPath, ['--input-type=module', '-e', program], {
    cwd: root,
    env: { PATH: process.env.PATH, DATABASE_URL: await databaseUrl() },
    encoding: 'utf8',
  })
  expect(JSON.parse(output)).toEqual({
    health: 200,
    metrics: true,
    error: {
      code: 'USAGE',
      message: 'instrument requires @opentelemetry/api, which could not be loaded',
      hint: expect.stringContaining('npm install @opentelemetry/api'),
    },
  })
})
