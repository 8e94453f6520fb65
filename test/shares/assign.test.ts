// Tests long-lived ownership: resources are divided evenly, move when instances join or leave, and never have two owners.
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
import { anchorPid, databaseUrl, openFleet } from '../setup/instances.js'
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
  readonly started: OwnedResource[]
  readonly errors: unknown[]
}

/** Records the running functions of all members of a test, and detects a resource that runs twice. */
class OwnershipChecker {
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

function assign(holdfast: Holdfast, checker: OwnershipChecker, resources: Resources = feeds): Member {
  const started: OwnedResource[] = []
  const errors: unknown[] = []
  holdfast.on('share.failed', ({ error }) => errors.push(error))
  const assignment = holdfast.shares.assign('feeds', resources, async (_, owned) => {
    started.push(owned)
    checker.enter(owned)
    await new Promise((resolve) => owned.signal.addEventListener('abort', resolve))
    // The function ends slowly, so that a next owner that starts too early would be detected.
    if (owned.held) await sleep(20)
    checker.leave(owned)
  })
  return { holdfast, assignment, started, errors }
}

function spread(members: readonly Member[], resources: readonly string[] = feeds): Promise<boolean> {
  const maxOwned = Math.ceil(resources.length / members.length)
  return until(`${resources.length} resources are divided among ${members.length} members`, () => {
    const parts = members.map(({ assignment }) => assignment.owned)
    const all = parts.flat().sort()
    return all.length === resources.length && parts.every(({ length }) => length <= maxOwned)
  })
}

describe.each<[string, Partial<HoldfastOptions>]>([
  ['by locks', {}],
  ['by leases', { anchor: 'none', expiry: '2s' }],
])('shares.assign %s', (_, options) => {
  test('resources are divided among the members, and move when members join or leave', async () => {
    const checker = new OwnershipChecker()
    const instances = await fleet(3, options)
    const members = [assign(instances[0]!, checker)]
    await spread(members)
    expect(members[0]!.assignment.owned).toEqual([...feeds].sort())
    members.push(assign(instances[1]!, checker))
    await spread(members)
    members.push(assign(instances[2]!, checker))
    await spread(members)
    const moved = members.flatMap(({ started }) => started).length - feeds.length
    expect(moved).toBeLessThan(feeds.length * 1.7)
    const aborted = members[0]!.started.find(({ signal }) => signal.aborted)!
    expect(aborted.signal.reason).toBeInstanceOf(ResourceMovedError)
    expect(aborted.signal.reason).toMatchObject({ share: 'feeds', reason: 'moved', code: 'RESOURCE_MOVED' })

    await members.shift()!.holdfast.close()
    await spread(members)
    await members.shift()!.assignment.close()
    await spread(members)
    expect(checker.faults).toEqual([])
    expect(members.flatMap(({ errors }) => errors)).toEqual([])
  })

  test('update adds and removes resources', async () => {
    const checker = new OwnershipChecker()
    const instances = await fleet(2, options)
    const members = instances.map((instance) => assign(instance, checker, feeds.slice(0, 4)))
    await spread(members, feeds.slice(0, 4))
    for (const { assignment } of members) assignment.update(feeds.slice(2, 8))
    await spread(members, feeds.slice(2, 8))
    await until(
      'the removed resources are released',
      () => !checker.running.has('feed 0') && !checker.running.has('feed 1'),
    )
    // The first owner may have received the reason "moved" before the update.
    const owners = members.flatMap(({ started }) => started).filter(({ resource }) => resource === 'feed 0')
    expect(owners.map(({ signal }) => signal.reason.reason)).toContain('dropped')
    expect(checker.faults).toEqual([])
  })
})

test('shares.assign reads the resources from a function repeatedly', async () => {
  const checker = new OwnershipChecker()
  const [a] = await fleet(1)
  let list: unknown = ['x']
  const member = assign(a!, checker, async () => list as string[])
  await until('the member owns x', () => member.assignment.owned.join() === 'x')
  list = ['y', 'z']
  await until('the member owns y and z', () => member.assignment.owned.join() === 'y,z')
  list = 'no list'
  await until('the error is reported', () => member.errors.length > 0)
  expect(member.errors[0]).toBeInstanceOf(UsageError)
  expect(member.assignment.owned).toEqual(['y', 'z'])
})

test('a slow owner keeps its resources until its functions end', async () => {
  const [a, b] = await fleet(2)
  const checker = new OwnershipChecker()
  let finish = () => {}
  const finishing = new Promise<void>((resolve) => {
    finish = resolve
  })
  const slow = a!.shares.assign('feeds', feeds, async (_, owned) => {
    checker.enter(owned)
    await finishing
    checker.leave(owned)
  })
  await until('the slow member owns all resources', () => slow.owned.length === feeds.length)
  const other = assign(b!, checker)
  await stays('no resource has moved', () => other.assignment.owned.length === 0, 1_500)
  expect(slow.owned).toHaveLength(feeds.length)
  finish()
  await until('half of the resources have moved', () => other.assignment.owned.length === feeds.length / 2)
  expect(checker.faults).toEqual([])
})

test('a function that returns or throws runs again while its resource is owned', async () => {
  const [a] = await fleet(1)
  const errors: unknown[] = []
  const runs = new Map<string, number[]>()
  a!.on('share.failed', ({ error }) => errors.push(error))
  const assignment = a!.shares.assign('restless', ['returns', 'throws'], (resource, { fence }) => {
    runs.set(resource, [...(runs.get(resource) ?? []), fence])
    if (resource === 'throws') throw new Error('no feed')
  })
  await until(
    'both functions have run twice',
    () => [...runs.values()].filter(({ length }) => length >= 2).length === 2,
  )
  expect(assignment.owned).toEqual(['returns', 'throws'])
  // The fence does not change, so the resource was owned during the whole time.
  for (const fences of runs.values()) expect(new Set(fences).size).toBe(1)
  expect(errors[0]).toMatchObject({ message: 'no feed' })
})

test('a member that loses its session aborts its functions and owns its resources again', async () => {
  const checker = new OwnershipChecker()
  const [a] = await fleet(1)
  const member = assign(a!, checker)
  await spread([member])
  await sql(fresh.url, 'select pg_terminate_backend($1)', [await anchorPid(fresh.url, a!)])
  await until('all signals are aborted', () =>
    member.started.slice(0, feeds.length).every(({ signal }) => signal.aborted),
  )
  expect(member.started[0]!.signal.reason).toMatchObject({ code: 'LOCK_LOST' })
  await spread([member])
  expect(checker.faults).toEqual([])
})

test('rows of dead members are ignored and deleted', async () => {
  const checker = new OwnershipChecker()
  const [a] = await fleet(1)
  await sql(
    fresh.url,
    "insert into holdfast.share_member select $1, 'feeds', 'ghost ' || i, nextval('holdfast.session') from generate_series(1, 3) i",
    [a!.namespace],
  )
  await spread([assign(a!, checker)])
  const rows = await sql(fresh.url, 'select instance from holdfast.share_member where namespace = $1', [a!.namespace])
  expect(rows).toEqual([{ instance: a!.id }])
})

test('a member whose row was lost joins again', async () => {
  const checker = new OwnershipChecker()
  const [a, b] = await fleet(2)
  const members = [a!, b!].map((instance) => assign(instance, checker))
  await spread(members)
  // A crash of the server empties the unlogged table.
  await sql(fresh.url, 'delete from holdfast.share_member where namespace = $1', [a!.namespace])
  await until('both instances are members again', async () => {
    const rows = await sql(fresh.url, 'select from holdfast.share_member where namespace = $1', [a!.namespace])
    return rows.length === 2
  })
  await spread(members)
  expect(checker.faults).toEqual([])
})

test('close releases all resources, and waits for a running function at most for the expiry', async () => {
  const [a] = await fleet(1, { expiry: '2s' })
  const assignment = a!.shares.assign('does not end', ['x'], () => new Promise(() => {}))
  await until('the instance owns x', () => assignment.owned.length === 1)
  await within(5_000, 'close', a!.close())
  expect(assignment.owned).toEqual([])
  await untilNoLocks(fresh.url)
})

test('a closed assignment leaves no locks and no row, and another assignment can follow', async () => {
  const checker = new OwnershipChecker()
  const [a] = await fleet(1)
  const member = assign(a!, checker)
  await spread([member])
  await member.assignment.close()
  expect(member.assignment.owned).toEqual([])
  expect(member.started.every(({ held, signal }) => !held && signal.aborted)).toBe(true)
  await untilNoLocks(fresh.url)
  expect(await sql(fresh.url, 'select from holdfast.share_member where namespace = $1', [a!.namespace])).toEqual([])
  const next = assign(a!, checker)
  await spread([next])
  await next.assignment.close()
})

describe.each<[string, string, string]>([
  ['its row could not be deleted at first', 'before delete', "raise exception 'no deletion'"],
  ['its row was inserted after it had left', 'after insert', 'perform pg_sleep(6)'],
])('a member that leaves while a statement fails', (what, event, body) => {
  test(`the other member owns all resources although ${what}`, async () => {
    const url = await databaseUrl()
    const [a, b] = await openFleet(url, 2)
    const checker = new OwnershipChecker()
    const other = assign(b!, checker)
    await spread([other])
    const disturb = () =>
      sql(
        url,
        `create function public.disturb() returns trigger language plpgsql as $$ begin ${body}; return null; end $$;
         create trigger disturb ${event} on holdfast.share_member for each statement execute function public.disturb()`,
      )
    const isSleeping = async () =>
      (await sql(url, "select from pg_stat_activity where wait_event = 'PgSleep'")).length > 0
    const isInsert = event === 'after insert'
    if (isInsert) await disturb()
    const leaving = assign(a!, checker)
    if (isInsert) {
      await until('the row is being inserted', isSleeping)
    } else {
      await spread([other, leaving])
      await disturb()
    }
    await leaving.assignment.close()
    // The insert takes longer than the maximum time for a response, so it takes effect after the member has left.
    await until('the row is inserted', async () => !(await isSleeping()))
    await sql(url, 'drop trigger disturb on holdfast.share_member')
    await until('the row is deleted', async () => (await sql(url, 'select from holdfast.share_member')).length === 1)
    await spread([other])
    expect(checker.faults).toEqual([])
  })
})

test('ready resolves after update replaces a function that never returns resources', async () => {
  const [a] = await fleet(1)
  const checker = new OwnershipChecker()
  const { assignment } = assign(a!, checker, () => new Promise(() => {}))
  assignment.update(['x', 'y'])
  await until('the member owns both resources', () => assignment.owned.length === 2)
  await within(5_000, 'ready', assignment.ready())
})

describe('invalid arguments of shares.assign', () => {
  test.each<[unknown[], string]>([
    [
      ['', [], () => {}],
      'Expected the share to be a string of 1 to 500 characters without zero bytes, got "" (string)',
    ],
    [['a', 'x', () => {}], 'Expected the resources to be an array, got "x" (string)'],
    [['a', [''], () => {}], 'Expected a resource to be a string of 1 to 500 characters without zero bytes, got ""'],
    [['a', ['x']], 'Expected the last argument of shares.assign to be a function, got undefined'],
  ])('shares.assign refuses the arguments %j', async (given, message) => {
    const [a] = await fleet(1)
    const assign = a!.shares.assign.bind(a!.shares) as (...given: unknown[]) => unknown
    expect((await caught(UsageError, () => assign(...given))).message).toContain(message)
  })

  test('shares.assign refuses a second assignment of a share, and update refuses invalid resources', async () => {
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
