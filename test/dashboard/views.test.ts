import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { actNames } from '../../src/acts/index.js'
import { pages, views } from '../../src/dashboard/views/index.js'
import { databaseUrl, open } from '../setup/instances.js'
import { board, serve } from './fixture.js'

test('the name of a view is on one page only, and every right is in the guide', () => {
  expect(Object.keys(views).sort()).toEqual(pages.flatMap((page) => Object.keys(page)).sort())
  const guide = readFileSync('docs/guides/dashboard.md', 'utf8')
  expect(actNames.filter((name) => !guide.includes(`\`${name}\``))).toEqual([])
})

test('every view returns data and shows its SQL', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url, namespace: 'shop' })
  await holdfast.locks.acquire('nightly')
  const base = await serve(board({ url }))
  const get = async (path: string) => (await fetch(`${base}/api/${path}`)).json()
  for (const [name, { needs, params }] of Object.entries(views)) {
    // A view that needs more parameters is tested with its page.
    if (Object.keys(needs).some((need) => need !== 'namespace')) continue
    const view = 'namespace' in { ...needs, ...params } ? `${name}?namespace=shop` : name
    expect(await get(`view/${view}`)).toMatchObject({ view, at: expect.stringMatching(/Z$/), data: expect.any(Object) })
    const { statements } = (await get(`sql/${view}`)) as { statements: { text: string }[] }
    expect(statements.length).toBeGreaterThan(0)
    for (const { text } of statements) expect(text).not.toMatch(/\$\d/)
  }
})
