import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { actNames } from '../../src/acts/index.js'
import { pages, views } from '../../src/dashboard/views/index.js'
import { defineJob } from '../../src/index.js'
import { Observer } from '../../src/observe/index.js'
import { untilMember, untilRuns } from '../schedules/fixture.js'
import { sqlSession, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { board, serve } from './fixture.js'

test('the name of a view is on one page only, and every right is in the guide', () => {
  expect(Object.keys(views).sort()).toEqual(pages.flatMap((page) => Object.keys(page)).sort())
  const guide = readFileSync('docs/guides/dashboard-access.md', 'utf8')
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

test('the pages of locks, schedules and deliveries continue after the previous page', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url, namespace: 'shop' })
  for (const name of ['a', 'b', 'c']) {
    await holdfast.locks.acquire(name)
    holdfast.schedules.add(name, { cron: '0 3 * * *' }, () => {})
    await holdfast.once.run(`stripe:${name}`, async () => 1)
  }
  const base = await serve(board({ url }))
  const get = async (path: string) => ((await (await fetch(`${base}/api/view/${path}`)).json()) as { data: Found }).data
  await until('the schedules are stored', async () => (await get('schedules')).count === 3)
  expect((await get('schedules?after=2')).rows).toMatchObject([{ name: 'c' }])
  expect((await get('names?after=1')).locks.map(({ label }) => label).sort()).toHaveLength(2)
  const session = await sqlSession(url)
  const observer = new Observer({ read: async (text, values) => (await session.query(text, values as unknown[])).rows })
  for (const prefix of [undefined, 'stripe:']) {
    const keys: string[] = []
    let after: string | undefined
    do {
      const page = await observer.deliveries.search({ prefix, limit: 1, after })
      keys.push(...page.rows.map(({ key }) => key))
      after = page.next ?? undefined
    } while (after !== undefined)
    expect(keys).toEqual(prefix ? ['stripe:a', 'stripe:b', 'stripe:c'] : ['stripe:c', 'stripe:b', 'stripe:a'])
  }
})

test('the overview shows the errors of jobs and of runs only after redact', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url, namespace: 'shop' })
  const fail = () => Promise.reject(new Error('secret-error'))
  const job = defineJob<null>('send', { queue: 'mail', retry: { attempts: 1 }, run: fail })
  const { id } = await holdfast.jobs.enqueue(job, null)
  holdfast.jobs.work([job])
  holdfast.schedules.add('nightly', { every: '7d' }, fail)
  await untilMember(holdfast, 'nightly')
  await holdfast.schedules.run('nightly')
  await untilRuns(holdfast, 'nightly', ['failed'])
  await until('the job is buried', async () => (await holdfast.jobs.find(id))?.state === 'buried')
  const details = async (redact?: (payload: unknown, about: object) => unknown) => {
    const base = await serve(board({ url, redact }))
    const { data } = (await (await fetch(`${base}/api/view/overview`)).json()) as { data: Troubles }
    return data.trouble.map((one) => [one.kind, one]).sort() as [string, { detail: string }][]
  }
  expect(await details()).toMatchObject([
    ['buried', { detail: 'send: secret-error' }],
    ['failed', { detail: 'secret-error' }],
  ])
  const payloads: unknown[] = []
  const redacted = await details((payload, about) => {
    payloads.push([about, payload])
    return { name: 'Error', message: 'hidden' }
  })
  expect(redacted).toMatchObject([
    ['buried', { detail: 'send: hidden' }],
    ['failed', { detail: 'hidden' }],
  ])
  expect(JSON.stringify(redacted)).not.toContain('secret-error')
  expect(payloads).toContainEqual([
    { what: 'job error', of: 'send' },
    { name: 'Error', message: 'secret-error' },
  ])
  expect(payloads).toContainEqual([
    { what: 'run error', of: 'nightly' },
    { name: 'Error', message: 'secret-error' },
  ])
})

interface Troubles {
  readonly trouble: readonly { readonly kind: string; readonly detail: string }[]
}

interface Found {
  readonly count: number
  readonly rows: readonly { readonly name: string }[]
  readonly locks: readonly { readonly label: string }[]
}
