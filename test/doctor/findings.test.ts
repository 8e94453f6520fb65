// Checks that each finding is explained in the guide, covered by a test and part of the published schema.
import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { findingIds } from '../../src/base/index.js'
import { schemas } from '../cli/schemas.js'

test('the guide explains all findings, and no others', () => {
  const guide = readFileSync(new URL('../../docs/operating/doctor.md', import.meta.url), 'utf8')
  const rows = guide.split('\n').flatMap((line) => /^\| (`.*?`) +\|/.exec(line)?.[1] ?? [])
  expect(rows.flatMap((row) => row.replaceAll('`', '').split(', ')).sort()).toEqual([...findingIds].sort())
})

test('each finding has a test that provokes it', () => {
  const root = new URL('../', import.meta.url)
  const tests = ['doctor', 'postgres', 'security'].flatMap((room) =>
    readdirSync(new URL(room, root)).map((file) => readFileSync(new URL(`${room}/${file}`, root), 'utf8')),
  )
  const unseen = findingIds.filter((id) => !tests.some((text) => new RegExp(`'${id}[:']`).test(text)))
  expect(unseen).toEqual([])
})

test('the published schema contains all findings', () => {
  expect([...schemas.get('doctor').$defs.FindingId.enum].sort()).toEqual([...findingIds].sort())
})
