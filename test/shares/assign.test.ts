// Long-lived ownership: spread evenly, moved when instances come and go, never owned twice.
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import {
  type Assignment,
  ClosedError,
  type Holdfast,
  type HoldfastOptions,
  type OwnedResource,
  ResourceMovedError,
  type Resources,
  UsageError,
} from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught, sql, stays, until, within } from '../setup/facts.js'
import { anchorPid, openFleet } from '../setup/instances.js'
import { untilNoLocks } from '../setup/locking.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

const fleet = (size: number, options?: Partial<HoldfastOptions>) => openFleet(fresh.url, size, options)

const feeds = Array.from({ length: 24 }, (_, i) => `feed ${i}`)

interface Member {
  readonly holdfast: Holdfast
  readonly assignment: Assignment
  readonly begun: OwnedResource[]
  readonly errors: unknown[]
}

/** Who runs what now, over all members of a test: the function itself sees when somebody else is at work. */
class Watch {
  readonly running = new Map<string, OwnedResource>()
  readonly faults: string[] = []

  enter(owned: OwnedResource): void {
    const other = this.running.get(owned.resource)
    if (other) this.faults.push(`${owned.resource} is owned twice, fences ${other.fence} and ${owned.fence}`)
    this.running.set(owned.resource, owned)
  }

  leave(owned: OwnedResource): void {
    if (this.running.get(owned.resource) === owned) this.running.delete(owned.resource)
  }
}

function assign(holdfast: Holdfast, watch: Watch, resources: Resources = feeds): Member {
  const begun: OwnedResource[] = []
  const errors: unknown[] = []
  holdfast.on('share.failed', ({ error }) => errors.push(error))
  const assignment = holdfast.shares.assign('feeds', resources, async (_, owned) => {
    begun.push(owned)
    watch.enter(owned)
    await new Promise((resolve) => owned.signal.addEventListener('abort', resolve))
    // Time to let go in, in which a hasty next owner would show.
    if (owned.held) await sleep(20)
    watch.leave(owned)
  })
  return { holdfast, assignment, begun, errors }
}

function spread(members: readonly Member[], resources: readonly string[] = feeds): Promise<boolean> {
  const most = Math.ceil(resources.length / members.length)
  return until(`${resources.length} resources are spread over ${members.length}`, () => {
    const parts = members.map(({ assignment }) => assignment.owned)
    const all = parts.flat().sort()
    return all.length === resources.length && parts.every(({ length }) => length <= most)
  })
}

describe.each<[string, Partial<HoldfastOptions>]>([
  ['by locks', {}],
  ['by leases', { anchor: 'none', expiry: '2s' }],
])('%s', (_, options) => {
  test('resources are spread over those who are there, and move with them', async () => {
    const watch = new Watch()
    const instances = await fleet(3, options)
    const members = [assign(instances[0]!, watch)]
    await spread(members)
    expect(members[0]!.assignment.owned).toEqual([...feeds].sort())
    members.push(assign(instances[1]!, watch))
    await spread(members)
    members.push(assign(instances[2]!, watch))
    await spread(members)
    const moved = members.flatMap(({ begun }) => begun).length - feeds.length
    expect(moved).toBeLessThan(feeds.length * 1.7)
    const told = members[0]!.begun.find(({ signal }) => signal.aborted)!
    expect(told.signal.reason).toBeInstanceOf(ResourceMovedError)
    expect(told.signal.reason).toMatchObject({ share: 'feeds', reason: 'moved', code: 'RESOURCE_MOVED' })

    await members.shift()!.holdfast.close()
    await spread(members)
    await members.shift()!.assignment.close()
    await spread(members)
    expect(watch.faults).toEqual([])
    expect(members.flatMap(({ errors }) => errors)).toEqual([])
  })

  test('resources that come and go', async () => {
    const watch = new Watch()
    const instances = await fleet(2, options)
    const members = instances.map((instance) => assign(instance, watch, feeds.slice(0, 4)))
    await spread(members, feeds.slice(0, 4))
    for (const { assignment } of members) assignment.update(feeds.slice(2, 8))
    await spread(members, feeds.slice(2, 8))
    await until('the old ones are let go', () => !watch.running.has('feed 0') && !watch.running.has('feed 1'))
    // The first of its owners may have been told before that it moves to the other.
    const owners = members.flatMap(({ begun }) => begun).filter(({ resource }) => resource === 'feed 0')
    expect(owners.map(({ signal }) => signal.reason.reason)).toContain('dropped')
    expect(watch.faults).toEqual([])
  })
})

test('the resources may come from a function', async () => {
  const watch = new Watch()
  const [a] = await fleet(1)
  let list: unknown = ['x']
  const member = assign(a!, watch, async () => list as string[])
  await until('it owns x', () => member.assignment.owned.join() === 'x')
  list = ['y', 'z']
  await until('it owns y and z', () => member.assignment.owned.join() === 'y,z')
  list = 'no list'
  await until('it is told', () => member.errors.length > 0)
  expect(member.errors[0]).toBeInstanceOf(UsageError)
  expect(member.assignment.owned).toEqual(['y', 'z'])
})

test('an owner that is slow to let go delays the next one, and nothing else', async () => {
  const [a, b] = await fleet(2)
  const watch = new Watch()
  let finish = () => {}
  const finishing = new Promise<void>((resolve) => {
    finish = resolve
  })
  const slow = a!.shares.assign('feeds', feeds, async (_, owned) => {
    watch.enter(owned)
    await finishing
    watch.leave(owned)
  })
  await until('it owns all', () => slow.owned.length === feeds.length)
  const other = assign(b!, watch)
  await stays('nothing has moved', () => other.assignment.owned.length === 0, 1_500)
  expect(slow.owned).toHaveLength(feeds.length)
  finish()
  await until('half of it has moved', () => other.assignment.owned.length === feeds.length / 2)
  expect(watch.faults).toEqual([])
})

test('a function that returns or throws is run again while its resource is owned', async () => {
  const [a] = await fleet(1)
  const errors: unknown[] = []
  const runs = new Map<string, number[]>()
  a!.on('share.failed', ({ error }) => errors.push(error))
  const assignment = a!.shares.assign('restless', ['returns', 'throws'], (resource, { fence }) => {
    runs.set(resource, [...(runs.get(resource) ?? []), fence])
    if (resource === 'throws') throw new Error('no feed')
  })
  await until('both ran twice', () => [...runs.values()].filter(({ length }) => length >= 2).length === 2)
  expect(assignment.owned).toEqual(['returns', 'throws'])
  // It was owned throughout.
  for (const fences of runs.values()) expect(new Set(fences).size).toBe(1)
  expect(errors[0]).toMatchObject({ message: 'no feed' })
})

test('a lost session: everything is told, and owned again', async () => {
  const watch = new Watch()
  const [a] = await fleet(1)
  const member = assign(a!, watch)
  await spread([member])
  await sql(fresh.url, 'select pg_terminate_backend($1)', [await anchorPid(fresh.url, a!)])
  await until('all are told', () => member.begun.slice(0, feeds.length).every(({ signal }) => signal.aborted))
  expect(member.begun[0]!.signal.reason).toMatchObject({ code: 'LOCK_LOST' })
  await spread([member])
  expect(watch.faults).toEqual([])
})

test('members of the past count for nothing, and are removed', async () => {
  const watch = new Watch()
  const [a] = await fleet(1)
  await sql(
    fresh.url,
    "insert into holdfast.share_member select $1, 'feeds', 'ghost ' || i, nextval('holdfast.session') from generate_series(1, 3) i",
    [a!.namespace],
  )
  await spread([assign(a!, watch)])
  const rows = await sql(fresh.url, 'select instance from holdfast.share_member where namespace = $1', [a!.namespace])
  expect(rows).toEqual([{ instance: a!.id }])
})

test('a member whose row was lost joins again', async () => {
  const watch = new Watch()
  const [a, b] = await fleet(2)
  const members = [a!, b!].map((instance) => assign(instance, watch))
  await spread(members)
  // What a crash does to the table.
  await sql(fresh.url, 'delete from holdfast.share_member where namespace = $1', [a!.namespace])
  await until('both are members again', async () => {
    const rows = await sql(fresh.url, 'select from holdfast.share_member where namespace = $1', [a!.namespace])
    return rows.length === 2
  })
  await spread(members)
  expect(watch.faults).toEqual([])
})

test('closing lets go of everything; a function that does not end delays it for the expiry', async () => {
  const [a] = await fleet(1, { expiry: '2s' })
  const assignment = a!.shares.assign('deaf', ['x'], () => new Promise(() => {}))
  await until('it owns x', () => assignment.owned.length === 1)
  await within(5_000, 'Closing', a!.close())
  expect(assignment.owned).toEqual([])
  await untilNoLocks(fresh.url)
})

test('an assignment that is closed leaves nothing behind, and another may follow', async () => {
  const watch = new Watch()
  const [a] = await fleet(1)
  const member = assign(a!, watch)
  await spread([member])
  await member.assignment.close()
  expect(member.assignment.owned).toEqual([])
  expect(member.begun.every(({ held, signal }) => !held && signal.aborted)).toBe(true)
  await untilNoLocks(fresh.url)
  expect(await sql(fresh.url, 'select from holdfast.share_member where namespace = $1', [a!.namespace])).toEqual([])
  const next = assign(a!, watch)
  await spread([next])
  await next.assignment.close()
})

describe('mistakes', () => {
  test.each<[unknown[], string]>([
    [
      ['', [], () => {}],
      'Expected the share to be a string of 1 to 500 characters without zero bytes, got "" (string)',
    ],
    [['a', 'x', () => {}], 'Expected the resources to be an array, got "x" (string)'],
    [['a', [''], () => {}], 'Expected a resource to be a string of 1 to 500 characters without zero bytes, got ""'],
    [['a', ['x']], 'Expected the third argument of shares.assign to be a function, got undefined'],
  ])('assign(%j)', async (given, message) => {
    const [a] = await fleet(1)
    const ask = a!.shares.assign.bind(a!.shares) as (...given: unknown[]) => unknown
    expect((await caught(UsageError, () => ask(...given))).message).toContain(message)
  })

  test('twice the same share, other resources that are none, a closed instance', async () => {
    const [a] = await fleet(1)
    const assignment = a!.shares.assign('twice', [], () => {})
    onTestFinished(() => assignment.close())
    expect((await caught(UsageError, () => a!.shares.assign('twice', [], () => {}))).message).toBe(
      'This instance already takes part in the share "twice"',
    )
    expect((await caught(UsageError, () => assignment.update([7] as never))).message).toContain('Expected a resource')
    await a!.close()
    await caught(ClosedError, () => a!.shares.assign('late', [], () => {}))
  })
})
