import { expect, test } from 'vitest'
import { startPooler, withoutPgBouncer } from '../pooler/pgbouncer.js'
import { randomFrom } from '../property/random.ts'
import { fixedSeedOf } from '../property/seed.js'
import { until } from '../setup/facts.js'
import { Child } from './children.js'
import { expiryMs, openDatabase, openInstance, openServer } from './fixture.js'

// Rounds of several processes: each resource once, whoever dies. What was begun and not recorded is begun again, and only that.

interface Told {
  event: 'ready' | 'begins' | 'ends' | 'over'
  round: string
  resource: string
  fence: number
  at: string
  done?: string[]
  skipped?: string[]
  error?: string
}

const resources = Array.from({ length: 80 }, (_, i) => `r${i}`)

async function workers(url: string, count: number, details: object = {}): Promise<Child<Told>[]> {
  const children = Array.from({ length: count }, () => new Child<Told>('./worker.ts', { url, expiryMs, ...details }))
  await Promise.all(children.map((child) => child.tells('it is ready', ({ event }) => event === 'ready')))
  return children
}

function order(children: readonly Child<Told>[], round: string, workMs: number, leastMs = 0): void {
  for (const child of children) child.send({ round, resources, leastMs, workMs, stay: true })
}

const over = (child: Child<Told>, round: string) =>
  child.tells('the round is over', (message) => message.event === 'over' && message.round === round, 40_000)

/** Which resources were begun in the round, by whom, how often. */
function begun(children: readonly Child<Told>[], round: string): Map<string, Child<Told>[]> {
  const by = new Map<string, Child<Told>[]>()
  for (const child of children) {
    for (const message of child.messages) {
      if (message.event !== 'begins' || message.round !== round) continue
      by.set(message.resource, [...(by.get(message.resource) ?? []), child])
    }
  }
  return by
}

test.each<[string, object]>([
  ['locks', {}],
  ['leases', { anchor: 'none' }],
])('four processes, ten rounds by %s: everything is begun once', { timeout: 300_000 }, async (_, details) => {
  const { url, witness } = await openDatabase()
  const children = await workers(url, 4, details)
  for (let i = 0; i < 10; i++) {
    const round = `round ${i}`
    order(children, round, i % 4)
    const results = await Promise.all(children.map((child) => over(child, round)))
    const begins = begun(children, round)
    expect([...begins.keys()].sort()).toEqual([...resources].sort())
    expect([...begins].filter(([, by]) => by.length > 1).map(([resource]) => resource)).toEqual([])
    expect(results.flatMap(({ done }) => done!).sort()).toEqual([...resources].sort())
  }
  const rows = await witness.query('select round, count(*)::int from holdfast.share_done group by round')
  expect(rows).toHaveLength(10)
  expect(rows.every((row) => (row as { count: number }).count === 80)).toBe(true)
})

test.skipIf(withoutPgBouncer)('the same through PgBouncer in transaction mode', { timeout: 300_000 }, async () => {
  const { url } = await openDatabase()
  const pooler = await startPooler({ mode: 'transaction', backends: 6, roundRobin: true })
  const children = await workers(pooler.through(url), 3, { anchor: 'none' })
  for (let i = 0; i < 5; i++) {
    order(children, `round ${i}`, 3)
    await Promise.all(children.map((child) => over(child, `round ${i}`)))
    expect([...begun(children, `round ${i}`)].filter(([, by]) => by.length > 1)).toEqual([])
    expect(begun(children, `round ${i}`).size).toBe(80)
  }
})

test('what a killed process had in hand goes on at once, and nothing else twice', { timeout: 300_000 }, async () => {
  const seed = fixedSeedOf('kills in rounds')
  const random = randomFrom(seed)
  const { url, witness } = await openDatabase()
  let children = await workers(url, 3)
  const everybody = [...children]
  for (let i = 0; i < 4; i++) {
    const round = `round ${i}`
    order(children, round, 20)
    // Of eighty one of three gets this many at least, whoever it is.
    const enough = 1 + random.below(15)
    const victim = await until(
      'one has begun',
      () => children.find((child) => begun([child], round).size >= enough),
      30_000,
    )
    const killedAt = victim.kill()
    children = children.filter((child) => child !== victim)
    await Promise.all(children.map((child) => over(child, round)))
    for (const [resource, by] of begun(everybody, round)) {
      // Begun, and not yet recorded when its process died: by that process first, and by one other.
      const isExplained = by.length === 1 || (by.length === 2 && by.includes(victim))
      expect([resource, isExplained]).toEqual([resource, true])
    }
    const [row] = await witness.query<{ count: number }>(
      'select count(*)::int from holdfast.share_done where round = $1',
      [round],
    )
    expect(row!.count).toBe(80)
    const again = begun(children, round)
    const taken = everybody.flatMap((child) =>
      child.messages.filter(
        ({ event, resource, at, round: its }) =>
          its === round && event === 'begins' && BigInt(at) > killedAt && begun([victim], round).has(resource),
      ),
    )
    expect(again.size).toBeGreaterThan(0)
    for (const { at } of taken) {
      console.log(
        `killed in a round; what it had in hand goes on after ${(Number(BigInt(at) - killedAt) / 1e6).toFixed(0)} ms`,
      )
    }
    const fresh = await workers(url, 1)
    children.push(...fresh)
    everybody.push(...fresh)
  }
})

test('a process that stands still in the middle is replaced, and what it says later is not recorded', async () => {
  const { url, witness } = await openDatabase()
  const [frozen] = await workers(url, 1)
  const free = await openInstance(url)
  // Long enough to be frozen in the middle, however late the signal comes.
  order([frozen!], 'frozen', 2_000, 2_000)
  await frozen!.tells('it has begun', ({ event }) => event === 'begins')
  frozen!.process.kill('SIGSTOP')
  const { done } = await free.shares.each('x', resources, () => {}, { round: 'frozen' })
  const [first] = frozen!.messages.filter(({ event }) => event === 'begins').slice(-1)
  expect(done).toContain(first!.resource)
  frozen!.process.kill('SIGCONT')
  const { done: late } = await over(frozen!, 'frozen')
  expect(late!).not.toContain(first!.resource)
  const rows = await witness.query('select instance from holdfast.share_done where resource = $1', [first!.resource])
  expect(rows).toEqual([{ instance: free.id }])
})

test('a round goes on through a restart of the server, and what was recorded stays', { timeout: 60_000 }, async () => {
  const { server, url, witness } = await openServer({ fsync: 'on' })
  const [a, b] = [await openInstance(url), await openInstance(url)]
  const runs = new Map<string, number>()
  const work = async (resource: string) => {
    runs.set(resource, (runs.get(resource) ?? 0) + 1)
    // Work, in the middle of which the server restarts.
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  const rounds = [a, b].map(({ shares }) => shares.each('x', resources, work, { round: 'r', concurrency: 2 }))
  await until('it goes', () => runs.size > 10)
  const recorded = await witness.query<{ resource: string }>('select resource from holdfast.share_done')
  await server.restart('immediate')
  const results = await Promise.all(rounds)
  expect(new Set(results.flatMap(({ done }) => done)).size).toBeGreaterThan(0)
  const after = await witness.query<{ resource: string }>('select resource from holdfast.share_done')
  expect(after).toHaveLength(80)
  for (const { resource } of recorded) expect([resource, runs.get(resource)]).toEqual([resource, 1])
  // Begun again is what was in hand in that moment, two by each, and what was done and not recorded yet; what was taken ahead had not begun.
  const twice = [...runs.values()].filter((times) => times > 1).length
  expect(twice).toBeLessThanOrEqual(8)
})
