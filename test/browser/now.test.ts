// Tests the first page in a real browser, with real processes that hang.
import { expect, test, vi } from 'vitest'
import { waitGraphView } from '../../src/dashboard/waits.js'
import { buildGraph, type ContendedName, type Participant } from '../../src/observe/index.js'
import { Child } from '../fault/children.js'
import { sql, until } from '../setup/facts.js'
import { databaseUrl } from '../setup/instances.js'
import { describeInBrowser, expectAccessible, openBoard, openPage } from './fixture.js'

type ChildMessage = { event: 'holds' | 'waits' | 'has'; pid?: number }
type HeldName = readonly ['lock' | 'lease', string]

/** Starts a process that holds these names. */
async function holder(url: string, ...holds: HeldName[]): Promise<Child<ChildMessage> & { pid: number }> {
  const child = new Child<ChildMessage>('../browser/waiter.ts', { url, namespace: 'shop', holds })
  const { pid } = await child.first('that it holds its names')
  return Object.assign(child, { pid: pid! })
}

function waits(child: Child<ChildMessage>, how: HeldName[0], name: string): void {
  child.send({ how, name })
}

/** Loads the layout alone, without a browser. */
async function layout() {
  // The module adds a listener when it is loaded.
  vi.stubGlobal('addEventListener', () => {})
  const { drawWaits } = await import('../../ui/graphics/wait-layout.js')
  vi.unstubAllGlobals()
  return drawWaits
}

test('a job that waits and is waited for is one box, and no edge leads from a box to itself', async () => {
  const drawWaits = await layout()
  const facts = { mode: 'exclusive', pid: null, weight: 1, since: null, forMs: 1_000, freeInMs: null } as const
  // A chain: each job blocks the next one, and none of them runs.
  const jobs = [1, 2, 3, 4]
  const names = jobs.slice(0, -1).map(
    (id): ContendedName => ({
      ...{ id: `job ${id}`, kind: 'job', key: String(id), namespace: 'shop', label: 'step', queue: 'mail' },
      ...{ max: null, inUse: null, waiting: 1 },
      holders: [{ ...facts, participant: `job ${id}`, how: 'job', job: id }],
      waits: [{ ...facts, participant: `job ${id + 1}`, requests: 1, behind: null, calls: [] }],
    }),
  )
  const participants = jobs.map(
    (id): Participant => ({
      ...{ id: `job ${id}`, kind: 'job', instance: null, instanceName: null, host: null, osPid: null },
      ...{ pids: [], application: null, user: null },
      job: { id, kind: 'step', queue: 'mail', state: id === 1 ? 'ready' : 'waiting' },
    }),
  )
  for (const isUpright of [false, true]) {
    // In both orders: a job may appear first as a participant, or as a name.
    for (const ordered of [names, [...names].reverse()]) {
      const { nodes, edges } = drawWaits(waitGraphView(buildGraph(ordered, participants)), isUpright)
      expect(nodes.map(({ id, kind }) => `${id} ${kind}`).sort()).toEqual([
        'job 1 name',
        'job 2 name',
        'job 3 name',
        'job 4 who',
      ])
      expect(edges.filter(({ from, to }) => from === to)).toEqual([])
      expect(edges.map(({ from, to }) => `${from} > ${to}`).sort()).toEqual([
        'job 1 > job 2',
        'job 2 > job 3',
        'job 3 > job 4',
      ])
    }
  }
})

test('a spent rate shows that it waits for its refill, and a name in its minimum hold shows that it blocks', async () => {
  const drawWaits = await layout()
  const facts = {
    mode: 'exclusive',
    pid: null,
    job: null,
    weight: 1,
    since: null,
    forMs: null,
    freeInMs: 5_000,
  } as const
  const captionOf = (how: 'rate' | 'min-hold') => {
    const name: ContendedName = {
      ...{ id: 'a', kind: how === 'rate' ? 'lane' : 'lease', key: '1', namespace: 'shop', label: 'a', queue: null },
      ...{ max: null, inUse: null, waiting: 1, holders: [{ ...facts, participant: 'no-holder', how }] },
      waits: [{ ...facts, participant: 'session 7', requests: 1, behind: null, calls: [] }],
    }
    const noHolder: Participant = {
      ...{ id: 'no-holder', kind: 'no-holder', instance: null, instanceName: null, host: null, osPid: null },
      ...{ pids: [], application: null, user: null, job: null },
    }
    const graph = buildGraph([name], [noHolder, { ...noHolder, id: 'session 7', kind: 'session', pids: [7] }])
    return drawWaits(waitGraphView(graph), false).nodes.find(({ id }) => id === 'no-holder')?.caption
  }
  expect([captionOf('rate'), captionOf('min-hold')]).toEqual(['waits for refill', 'blocks 1'])
})

describeInBrowser('the page Now', () => {
  test('a hang of three processes across a lease and a lock is shown within 3 s, and ended on the page', {
    timeout: 150_000,
  }, async () => {
    const url = await databaseUrl()
    const board = await openBoard({ databaseUrl: url })
    const page = await openPage(board)
    await page.getByRole('heading', { name: 'Start here' }).waitFor()
    await expectAccessible(page)
    // A process without names, so that the page has something to show between two attempts.
    await holder(url)
    await page.getByText('Nothing is blocked.').waitFor()
    await page.getByRole('button', { name: 'Show all' }).click()
    await page.getByText('A name has at most one holder').waitFor()
    await expectAccessible(page)

    const panel = page.getByRole('region', { name: /^Who waits for whom/ })
    const tookMs: number[] = []
    let hang: Awaited<ReturnType<typeof holder>>[] = []
    // The test tries again if the machine is busy with other work.
    do {
      for (const { process } of hang) process.kill('SIGKILL')
      await page.getByText('Nothing is blocked.').waitFor()
      hang = await Promise.all([holder(url, ['lease', 'etl']), holder(url, ['lock', 'invoice:42']), holder(url)])
      const [root, middle, last] = hang
      waits(last!, 'lock', 'invoice:42')
      await last!.waitFor('that it waits', ({ event }) => event === 'waits')
      const began = performance.now()
      waits(middle!, 'lease', 'etl')
      const sentence = panel.getByText(new RegExp(`/${root!.pid} holds lease etl \\(leased .*\\), and 2 others wait`))
      await sentence.waitFor({ timeout: 15_000 })
      tookMs.push(Math.round(performance.now() - began))
    } while (tookMs.at(-1)! > 3_000 && tookMs.length < 3)
    expect(Math.min(...tookMs), `named after ${tookMs} ms`).toBeLessThan(3_000)
    const [root, middle, last] = hang

    // The graphic shows the root first, and each waiter behind the name that it waits for.
    const nodes = panel.getByRole('button', { pressed: false }).or(panel.getByRole('button', { pressed: true }))
    const labels = await nodes.evaluateAll((all) =>
      all.filter((one) => one.closest('svg')).map((one) => one.getAttribute('aria-label')!.replace(/^[^/]*\//, '')),
    )
    expect(labels).toEqual([
      `${root!.pid} blocks 2`,
      'etl lease, 1 waiting',
      `${middle!.pid} waits and blocks others`,
      'invoice:42 lock, 1 waiting',
      `${last!.pid} waits`,
    ])
    await expectAccessible(page)

    // The table shows the same. Its key opens it.
    await panel.getByRole('button', { name: 'Table' }).focus()
    await page.keyboard.press('t')
    const rows = await panel.getByRole('row').allInnerTexts()
    expect(rows.map((row) => row.replace(/\s+/g, ' ').replace(/[^ ]*\/(\d+)/, '$1'))).toEqual([
      expect.stringMatching(/Participant or name/),
      expect.stringMatching(new RegExp(`Level 1: .*${root!.pid} blocks others`)),
      expect.stringMatching(/Level 2: lease etl leased \d+/),
      expect.stringMatching(new RegExp(`Level 3: .*${middle!.pid} waiting \\d+`)),
      expect.stringMatching(/Level 4: lock invoice:42 held/),
      expect.stringMatching(new RegExp(`Level 5: .*${last!.pid} waiting \\d+`)),
    ])
    await page.keyboard.press('t')

    // With the keyboard only: select the middle process, go back to the root, and expire the lease of the root.
    const chosen = panel.getByRole('region', { name: 'Selection' })
    await panel.getByRole('button', { pressed: true }).locator('visible=true').last().focus()
    await page.keyboard.press('ArrowRight')
    await page.keyboard.press('ArrowRight')
    await page.keyboard.press('Enter')
    await chosen.getByText(/Waits for/).waitFor()
    expect(await chosen.getByRole('listitem').allInnerTexts()).toEqual([
      expect.stringMatching(/Ask to release/),
      expect.stringMatching(/End the session/),
    ])
    await page.keyboard.press('Home')
    await page.keyboard.press('Enter')
    await chosen.getByRole('button', { name: /Expire the lease/ }).press('Enter')
    const dialog = page.getByRole('dialog')
    await dialog.getByText(`/${root!.pid}`).first().waitFor()
    await dialog.getByLabel('Reason').fill('it hangs')
    await page.keyboard.press('Enter')
    await dialog.waitFor({ state: 'detached' })
    await middle!.waitFor('that it has the lease', ({ event }) => event === 'has')
    await panel.getByText(new RegExp(`/${middle!.pid} holds lock invoice:42 .*1 other waits`)).waitFor()
    const [audited] = await sql(url, 'select act, subject, reason from holdfast.audit')
    expect(audited).toEqual({ act: 'expire-lease', subject: 'lease etl', reason: 'it hangs' })

    // The session is ended. The waiter has the lock, and no process waits.
    await chosen.getByRole('button', { name: /End the session/ }).click()
    await dialog.getByLabel('Reason').fill('it hangs, too')
    await dialog.getByRole('button', { name: 'End the session' }).click()
    await last!.waitFor('that it has the lock', ({ event }) => event === 'has')
    await page.getByText('Nothing is blocked.').waitFor()
  })

  test('a cycle is shown as a possible deadlock, hostile names as text, and a broken invariant with its SQL', {
    timeout: 150_000,
  }, async () => {
    const url = await databaseUrl()
    const hostile = '<script>alert(1)</script> "\u202eevil" '
    const names = [hostile, 'b'.repeat(400), 'c'] as const
    const three = await Promise.all(names.map((name, at) => holder(url, [at === 0 ? 'lease' : 'lock', name])))
    for (const [at, child] of three.entries()) waits(child, at === 2 ? 'lease' : 'lock', names[(at + 1) % 3]!)
    const broken = `insert into holdfast.dependency values (900, 901)`
    const board = await openBoard({ databaseUrl: url, readOnly: true })
    const page = await openPage(board, { theme: 'dark', width: 390 })
    const panel = page.getByRole('region', { name: /^Who waits for whom/ })
    await panel.getByText('Possible deadlock.').waitFor({ timeout: 20_000 })
    expect(await panel.getByRole('button', { name: /possible deadlock/ }).count()).toBe(3)
    await panel.getByText('lease <script>alert(1)<').first().waitFor()
    expect(await panel.getByRole('button', { name: /End the session|Expire/ }).count()).toBe(0)
    await expectAccessible(page)

    await sql(url, broken)
    // Another observer, which checks immediately.
    const fresh = await openPage(await openBoard({ databaseUrl: url }), { width: 1280 })
    const line = fresh.getByRole('button', { name: /No job is lost/ })
    await fresh.getByText('to be checked again').waitFor()
    await line.press('Enter')
    await fresh.getByRole('dialog').getByText('with presence as materialized').waitFor()
    await expectAccessible(fresh)
    await fresh.keyboard.press('Escape')
    await until('no script in a name has run', async () => (await page.evaluate(() => document.scripts.length)) === 1)
  })
})
