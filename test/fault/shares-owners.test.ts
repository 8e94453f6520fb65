import { expect, test } from 'vitest'
import { type Ending, type Hold, judge } from '../property/history.js'
import { until } from '../setup/facts.js'
import { Child, quantiles } from './children.js'
import { expiryMs, openDatabase } from './fixture.js'

// Owners that come, go, die and stand still: nothing is owned twice, and everything is owned again soon.

interface Told {
  event: 'ready' | 'begins' | 'ends'
  resource: string
  fence: number
  at: string
  code: string
}

const resources = Array.from({ length: 30 }, (_, i) => `r${i}`)

function member(url: string, details: object = {}): Child<Told> {
  return new Child('./member.ts', { url, expiryMs, resources, ...details })
}

/** What a process owns, as far as it has told. */
function ownedBy(child: Child<Told>): Told[] {
  if (child.killedAt) return []
  const ended = new Set(child.messages.filter(({ event }) => event === 'ends').map(({ fence }) => fence))
  return child.messages.filter(({ event, fence }) => event === 'begins' && !ended.has(fence))
}

/** When the last of the beginnings came by which the living own everything, evenly. */
async function balanced(children: readonly Child<Told>[]): Promise<bigint> {
  const living = children.filter(({ killedAt }) => killedAt === undefined)
  const most = Math.ceil(resources.length / living.length)
  return until(
    `${living.length} own everything`,
    () => {
      const parts = living.map(ownedBy)
      const owned = new Set(parts.flat().map(({ resource }) => resource))
      if (owned.size < resources.length || parts.some(({ length }) => length > most)) return undefined
      return parts.flat().reduce((latest, { at }) => (BigInt(at) > latest ? BigInt(at) : latest), 1n)
    },
    20_000,
  )
}

/** From beginning to end. Nothing of a frozen process counts after it was frozen, for it could do nothing. */
function holdsOf(children: readonly Child<Told>[], frozen: ReadonlyMap<Child<Told>, bigint> = new Map()): Hold[] {
  return children.flatMap((child) =>
    child.messages
      .filter(({ event }) => event === 'begins')
      .map(({ resource, fence, at }, i) => {
        const end = child.messages.find((told) => told.event === 'ends' && told.fence === fence)
        const ended = end ? BigInt(end.at) : (child.killedAt ?? process.hrtime.bigint())
        const frozenAt = frozen.get(child)
        const wasFrozen = frozenAt !== undefined && BigInt(at) < frozenAt && ended > frozenAt
        return {
          id: `${child.process.pid}:${i}`,
          schedule: 0,
          names: [resource],
          mode: 'exclusive' as const,
          fence,
          from: BigInt(at),
          to: wasFrozen ? frozenAt : ended,
          toldAt: undefined,
        }
      }),
  )
}

const ms = (from: bigint, to: bigint) => Number(to - from) / 1e6

test.each<[string, object]>([
  ['locks', {}],
  ['leases', { anchor: 'none' }],
])('members come and are killed, by %s', { timeout: 300_000 }, async (_, details) => {
  const { url } = await openDatabase()
  const children = [member(url, details)]
  await balanced(children)
  const [joins, kills, leaves]: number[][] = [[], [], []] as never
  for (let time = 0; time < 4; time++) {
    const newcomer = member(url, details)
    await newcomer.tells('it is ready', ({ event }) => event === 'ready')
    const joinedAt = process.hrtime.bigint()
    children.push(newcomer)
    joins!.push(ms(joinedAt, await balanced(children)))
    const living = children.filter(({ killedAt }) => killedAt === undefined)
    if (living.length < 3) continue
    if (time % 2 === 0) {
      const killedAt = living[0]!.kill()
      kills!.push(ms(killedAt, await balanced(children)))
    } else {
      const leftAt = process.hrtime.bigint()
      await living[0]!.close()
      living[0]!.killedAt = process.hrtime.bigint()
      leaves!.push(ms(leftAt, await balanced(children)))
    }
  }
  console.log(`balanced after a newcomer was ready, ${quantiles(joins!)}`)
  console.log(`balanced after a kill, ${quantiles(kills!)}`)
  console.log(`balanced after a leave in good order, ${quantiles(leaves!)}`)
  const holds = holdsOf(children)
  expect(holds.length).toBeGreaterThan(40)
  expect(judge(holds, []).violations).toEqual([])
})

test('one that stands still is replaced at the expiry, and takes part again when it is thawed', {
  timeout: 60_000,
}, async () => {
  const { url } = await openDatabase()
  const children = [member(url), member(url), member(url)]
  await balanced(children)
  const [frozen, ...others] = children as [Child<Told>, Child<Told>, Child<Told>]
  const frozenAt = process.hrtime.bigint()
  frozen.process.kill('SIGSTOP')
  const took = ms(frozenAt, await balanced(others))
  console.log(`balanced after a freeze: ${took.toFixed(0)} ms, expiry ${expiryMs} ms`)
  expect(took).toBeGreaterThan(expiryMs / 2)
  frozen.process.kill('SIGCONT')
  await until('it was told', () => frozen.messages.some(({ event, code }) => event === 'ends' && code === 'LOCK_LOST'))
  await balanced(children)
  expect(judge(holdsOf(children, new Map([[frozen, frozenAt]])), []).violations).toEqual([])
})

test('sessions that are ended from outside: owners are told, and everything is owned again', {
  timeout: 60_000,
}, async () => {
  const { url, witness } = await openDatabase()
  const children = [member(url), member(url), member(url)]
  await balanced(children)
  const endings: Ending[] = []
  for (let time = 0; time < 4; time++) {
    const from = process.hrtime.bigint()
    const before = children.flatMap(({ messages }) => messages).length
    await witness.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where application_name like 'holdfast %' and datname = current_database() order by random() limit 2`,
    )
    endings.push({ pid: 'all', from, to: process.hrtime.bigint() })
    await until('somebody noticed', () => children.flatMap(({ messages }) => messages).length > before)
    await balanced(children)
  }
  expect(judge(holdsOf(children), endings).violations).toEqual([])
})
