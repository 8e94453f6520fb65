import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { startProgram } from '../cli/program.js'
import { databaseUrl } from '../setup/instances.js'

test('the test in the testing guide passes', async () => {
  const guide = readFileSync(new URL('../../docs/guides/testing.md', import.meta.url), 'utf8')
  const [, code] = /```js\n(.*?)```/s.exec(guide)!
  const url = await databaseUrl()
  const text = code!.replace(
    'server = await startEmbedded()',
    `server = { createDatabase: () => ${JSON.stringify(url)}, stop() {} }`,
  )
  expect(text).not.toContain('await startEmbedded')
  // Node resolves the imports of a module from stdin in the working directory. There, the package can import itself by name.
  const home = fileURLToPath(new URL('../..', import.meta.url))
  const running = startProgram(process.execPath, ['--input-type=module', '-'], {}, home)
  running.process.stdin!.end(text)
  const { status, stdout, stderr } = await running.ended
  expect(stderr).toBe('')
  expect(stdout).toMatch(/^(# |ℹ )pass 4$/m)
  expect(status).toBe(0)
})
