// Every finding is explained in the guide, and stands in the published schema.
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { findingIds } from '../../src/doctor/index.js'
import { schemas } from '../cli/schemas.js'

test('the guide explains all findings, and no others', () => {
  const guide = readFileSync(new URL('../../docs/operating/doctor.md', import.meta.url), 'utf8')
  const rows = guide.split('\n').flatMap((line) => /^\| (`.*?`) +\|/.exec(line)?.[1] ?? [])
  expect(rows.flatMap((row) => row.replaceAll('`', '').split(', ')).sort()).toEqual([...findingIds].sort())
})

test('the published schema has all of them', () => {
  expect(schemas.get('doctor').$defs.id.enum).toEqual(findingIds)
})
