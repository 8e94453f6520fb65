// Explores the models in faults/model. The deep bound runs with HOLDFAST_ALL.
import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { deepBound, mutants, shortBound } from '../../faults/model/bounds.ts'
import { mutations } from '../../faults/mutations.ts'
import { runsAll } from '../setup/variants.js'

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')
const readme = read('faults/model/README.md')
const actions = shortBound().flatMap((exploration) => exploration.actions)

describe('the models of the protocols', () => {
  const taken = new Set<string>()

  test.each(shortBound())('no guarantee is violated within the short bound: $name', ({ run }) => {
    const result = run()
    expect(result.violation).toBeUndefined()
    for (const [name, count] of result.taken) if (count > 0) taken.add(name)
  })

  test('each action occurs within the short bound', () => {
    expect([...new Set(actions.map(({ name }) => name))].filter((name) => !taken.has(name))).toEqual([])
  })

  test.runIf(runsAll).each(deepBound())(
    'no guarantee is violated within the deep bound: $name',
    { timeout: 300_000 },
    ({ run, isBounded }) => {
      const { violation, isComplete } = run()
      expect(violation).toBeUndefined()
      expect(isComplete).toBe(!isBounded)
    },
  )

  test.each(mutants())('the planted bug "$bug" is found', ({ run }) => {
    expect(run().violation?.story.length).toBeGreaterThan(0)
  })
})

describe('the README of the models', () => {
  test('lists each action with its SQL', () => {
    const rows = new Set(
      actions.map(
        ({ name, sql }) => `| ${name} | ${sql.map(([file, what]) => `\`${what}\` (\`${file}\`)`).join(', ')} |`,
      ),
    )
    const listed = readme.split('\n').filter((line) => /^\| [^|]+ \| .*\(`\w+\/\w+\.sql`\)/.test(line))
    expect(listed.sort()).toEqual([...rows].filter((row) => row.includes('`')).sort())
  })

  test.each([...new Set(actions.flatMap(({ sql }) => sql.map(([file, what]) => `${file} ${what}`)))])(
    'an action refers to %s, which exists',
    (place) => {
      const [file, what] = place.split(' ') as [string, string]
      const sql = read(`src/${file}`)
      const isThere = what.startsWith('holdfast.')
        ? new RegExp(`^create or replace (function|view) ${what.replace('.', '\\.')}\\b`, 'm').test(sql)
        : new RegExp(`^-- name: ${what}\\b`, 'm').test(sql)
      expect(isThere).toBe(true)
    },
  )

  test('lists each planted bug, with a star if the fault suite does not plant it', () => {
    const known = new Set(mutations.map(({ name }) => name))
    for (const { bug } of mutants()) expect(readme).toContain(`| ${bug}${known.has(bug!) ? '' : ' *'} |`)
  })
})
