// Checks that the defaults of options that are durations are defined in one table.
import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { defaultTimes } from '../../src/base/index.js'

const read = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')
const files = readdirSync(new URL('../../src', import.meta.url), { recursive: true, encoding: 'utf8' }).filter((file) =>
  file.endsWith('.ts'),
)

test('no file of src defines a default time next to an option', () => {
  const option = '(wait|within|ttl|minHold|spread|retain|window|backoff|maxBackoff|expiry|patience)'
  const literal = new RegExp(`\\b${option}(: \\w+)? = \\d|(\\.${option}|durationMs\\([^)]*\\)) \\?\\? \\d`)
  expect('const { wait = 30_000 } = options').toMatch(literal)
  expect("settings.durationMs('interval') ?? 2_000").toMatch(literal)
  expect(files.length).toBeGreaterThan(300)
  expect(files.filter((file) => literal.test(read(`src/${file}`)))).toEqual([])
})

test('every default time is used, and docs/reference/default-times.md has a row for it', () => {
  const names = Object.keys(defaultTimes)
  const source = files.map((file) => read(`src/${file}`)).join('\n')
  expect(names.filter((name) => !source.includes(`defaultTimes.${name}`))).toEqual([])
  const rows = read('docs/reference/default-times.md').match(/^\| `/gm)
  expect(rows).toHaveLength(names.length)
})
