import { expect, test } from 'vitest'
import { type Ending, type Hold, judge } from '../property/history.js'
import { until } from '../setup/facts.js'
import { waysOf } from '../setup/variants.js'
import { Child, quantiles } from './children.js'
import { expiryMs, openDatabase } from './fixture.js'

// Members that join, leave, are killed and are frozen. No resource has two owners, and every resource has an owner again soon.

interface Message {
  event: 'ready' | 'starts' | 'ends'
  resource: string
  fence: number
  at: string
  code: string
}

const resources = Array.from({ length: 30 }, (_, i) => `r${i}`)

function member(url: string, details: object = {}): Child<Message> {
  return new Child('./member.ts', { url, expiryMs, resources, ...details })
}

/** Returns the resources that a process owns, according to its messages. */
function ownedBy(child: Child<Message>): Message[] {
  if (child.killedAt) return []
  const ended = new Set(child.messages.filter(({ event }) => event === 'ends').map(({ fence }) => fence))
  return child.messages.filter(({ event, fence }) => event === 'starts' && !ended.has(fence))
}

/** Waits until the running members own all resources evenly. Returns the time at which the last of these ownerships started. */
async function balanced(children: readonly Child<Message>[]): Promise<bigint> {
  const living = children.filter(({ killedAt }) => killedAt === undefined)
  const most = Math.ceil(resources.length / living.length)
  return until(
    `${living.length} members own all resources evenly`,
    () => {
      const parts = living.map(ownedBy)
      const owned = new Set(parts.flat().map(({ resource }) => resource))
      if (owned.size < resources.length || parts.some(({ length }) => length > most)) return undefined
      return parts.flat().reduce((latest, { at }) => (BigInt(at) > latest ? BigInt(at) : latest), 1n)
    },
    20_000,
  )
}

/** Converts the messages to holds. A hold of a frozen process ends with the freeze, because a frozen process does nothing. */
function holdsOf(children: readonly Child<Message>[], frozen: ReadonlyMap<Child<Message>, bigint> = new Map()): Hold[] {
  return children.flatMap((child) =>
    child.messages
      .filter(({ event }) => event === 'starts')
      .map(({ resource, fence, at }, i) => {
        const end = child.messages.find((message) => message.event === 'ends' && message.fence === fence)
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
          notifiedAt: undefined,
        }
      }),
  )
}

const ms = (from: bigint, to: bigint) => Number(to - from) / 1e6

test.each<[string, object]>(
  waysOf([
    ['locks', {}],
    ['leases', { anchor: 'none' }],
  ]),
)(
  'a resource has one owner at a time while members join, leave and are killed (by %s)',
  { timeout: 300_000 },
  async (_, details) => {
    const { url } = await openDatabase()
    const children = [member(url, details)]
    await balanced(children)
    const [joins, kills, leaves]: number[][] = [[], [], []] as never
    for (let time = 0; time < 4; time++) {
      const newcomer = member(url, details)
      await newcomer.waitFor('it is ready', ({ event }) => event === 'ready')
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
    console.log(`from a new member to even ownership, ${quantiles(joins!)}`)
    console.log(`from the kill of a member to even ownership, ${quantiles(kills!)}`)
    console.log(`from the close of a member to even ownership, ${quantiles(leaves!)}`)
    const holds = holdsOf(children)
    expect(holds.length).toBeGreaterThan(40)
    expect(judge(holds, []).violations).toEqual([])
  },
)

test('a frozen member loses its resources after the expiry, and takes part again when it is thawed', {
  timeout: 60_000,
}, async () => {
  const { url } = await openDatabase()
  const children = [member(url), member(url), member(url)]
  await balanced(children)
  const [frozen, ...others] = children as [Child<Message>, Child<Message>, Child<Message>]
  const frozenAt = process.hrtime.bigint()
  frozen.process.kill('SIGSTOP')
  const took = ms(frozenAt, await balanced(others))
  console.log(`from the freeze of a member to even ownership: ${took.toFixed(0)} ms, expiry ${expiryMs} ms`)
  expect(took).toBeGreaterThan(expiryMs / 2)
  frozen.process.kill('SIGCONT')
  await until('the thawed member was notified', () =>
    frozen.messages.some(({ event, code }) => event === 'ends' && code === 'LOCK_LOST'),
  )
  await balanced(children)
  expect(judge(holdsOf(children, new Map([[frozen, frozenAt]])), []).violations).toEqual([])
})

test('a resource has one owner at a time while sessions of members are ended', {
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
    await until(
      'a member has noticed the end of its session',
      () => children.flatMap(({ messages }) => messages).length > before,
    )
    await balanced(children)
  }
  expect(judge(holdsOf(children), endings).violations).toEqual([])
})
