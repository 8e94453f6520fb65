import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ClosedError, type HoldfastOptions, PermissionError, SteppedDownError, UsageError } from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught, sql, sqlSession, stays, until, within } from '../setup/facts.js'
import { anchorPid, databaseUrl, open, openFleet, roleUrl } from '../setup/instances.js'
import { campaign, leading, untilAborted } from './fixture.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

const fleet = (size: number, options?: Partial<HoldfastOptions>) => openFleet(fresh.url, size, options)

async function hasWaiters(key: string): Promise<boolean> {
  const waits = await sql(
    fresh.url,
    `select from pg_locks
     where locktype = 'advisory' and not granted and ((classid::bigint << 32) | objid::bigint) = $1`,
    [key],
  )
  return waits.length > 0
}

describe.each<[string, Partial<HoldfastOptions>]>([
  ['by locks', {}],
  ['by leases', { anchor: 'none', expiry: '2s' }],
])('elections %s', (_, options) => {
  test('one of three candidates leads, and all instances can read the leader', async () => {
    const instances = await fleet(3, options)
    expect(await instances[0]!.elections.leader('indexer')).toBeNull()
    const candidates = instances.map((holdfast) => campaign(holdfast, 'indexer'))
    const { holdfast, campaign: led, terms } = await leading(candidates)
    expect(led).toMatchObject({ name: 'indexer', leads: true, term: terms[0]!.term })
    expect(terms[0]).toMatchObject({ name: 'indexer', held: true })
    for (const instance of instances) {
      const leader = await instance.elections.leader('indexer')
      expect(leader).toEqual({
        instance: holdfast.id,
        instanceName: holdfast.name,
        term: terms[0]!.term,
        since: expect.any(Date),
      })
    }
    expect(candidates.flatMap(({ terms }) => terms)).toHaveLength(1)
    const others = candidates.filter(({ campaign }) => campaign !== led)
    expect(others.map(({ campaign }) => [campaign.leads, campaign.term])).toEqual([
      [false, null],
      [false, null],
    ])
  })

  test('another candidate with a larger term leads after the leader steps down', async () => {
    const candidates = (await fleet(2, options)).map((holdfast) => campaign(holdfast, 'indexer'))
    const first = await leading(candidates)
    const key = first.holdfast.locks.key('election/indexer')
    if (options.anchor !== 'none') await until('the other candidate waits', () => hasWaiters(key))
    await first.campaign.stepDown()
    expect(first.campaign.leads).toBe(false)
    expect(first.terms[0]!.held).toBe(false)
    expect(first.terms[0]!.signal.reason).toBeInstanceOf(SteppedDownError)
    expect(first.terms[0]!.signal.reason).toMatchObject({ election: 'indexer', reason: 'asked', code: 'STEPPED_DOWN' })
    const second = await leading(candidates)
    expect(second).not.toBe(first)
    expect(second.terms[0]!.term).toBeGreaterThan(first.terms[0]!.term)
    await until('the other instance can read the leader', async () => {
      const leader = await first.holdfast.elections.leader('indexer')
      return leader?.instance === second.holdfast.id && leader.term === second.campaign.term
    })
    expect(second.errors.concat(first.errors)).toEqual([])
  })

  test('another candidate leads after the instance of the leader closes', async () => {
    const candidates = (await fleet(2, options)).map((holdfast) => campaign(holdfast, 'indexer'))
    const first = await leading(candidates)
    await first.holdfast.close()
    expect(first.terms[0]!.signal.reason).toMatchObject({ reason: 'closing' })
    const second = await leading(candidates)
    expect(second.terms[0]!.term).toBeGreaterThan(first.terms[0]!.term)
    await until(
      'the instance can read the leader',
      async () => (await second.holdfast.elections.leader('indexer')) !== null,
    )
    await second.campaign.close()
    expect(await second.holdfast.elections.leader('indexer')).toBeNull()
  })

  test('a leader without other candidates leads again after it steps down', async () => {
    const [holdfast] = await fleet(1, options)
    const { campaign: only, terms } = campaign(holdfast!, 'alone')
    await until('the candidate leads', () => only.leads)
    await only.stepDown()
    await until('the candidate leads again', () => only.leads)
    expect(terms[1]!.term).toBeGreaterThan(terms[0]!.term)
  })
})

test('a leader whose function returns steps down, and leads again if there is no other candidate', async () => {
  const [a] = await fleet(1)
  const { terms, errors } = campaign(a!, 'short', { work: () => {} })
  await until('three terms have started', () => terms.length >= 3)
  expect(terms.map(({ term }) => term)).toEqual(terms.map(({ term }) => term).sort((x, y) => x - y))
  expect(errors).toEqual([])
})

test('an error of the leader function is reported, and another instance leads', async () => {
  const [a, b] = await fleet(2)
  const failing = campaign(a!, 'failing', {
    work: () => {
      throw new Error('no disk')
    },
  })
  await until('the function has failed', () => failing.errors.length > 0)
  expect(failing.errors[0]).toMatchObject({ message: 'no disk' })
  const other = campaign(b!, 'failing')
  await until('the other candidate leads', () => other.campaign.leads)
})

test('an error that the abort of the signal caused is not reported', async () => {
  const [a] = await fleet(1)
  const echoes: ((signal: AbortSignal) => unknown)[] = [
    (signal) => signal.reason,
    () => new DOMException('aborted', 'AbortError'),
    (signal) => new Error('gave up', { cause: signal.reason }),
  ]
  const {
    campaign: only,
    terms,
    errors,
  } = campaign(a!, 'echo', {
    work: async (leadership) => {
      await untilAborted(leadership)
      throw echoes[(terms.length - 1) % echoes.length]!(leadership.signal)
    },
  })
  for (let term = 1; term <= echoes.length; term++) {
    await until(`term ${term} has started`, () => only.leads && terms.length === term)
    await only.stepDown()
  }
  expect(errors).toEqual([])
})

test('no other candidate leads until the function of a leader that steps down has ended', async () => {
  const instances = await fleet(2)
  let finish = () => {}
  const slow = campaign(instances[0]!, 'slow to end', {
    work: () =>
      new Promise<void>((resolve) => {
        finish = resolve
      }),
  })
  await until('the candidate leads', () => slow.campaign.leads)
  const other = campaign(instances[1]!, 'slow to end')
  const steppedDown = slow.campaign.stepDown()
  expect(slow.terms[0]!.signal.aborted).toBe(true)
  expect(slow.terms[0]!.held).toBe(true)
  await stays('the other candidate does not lead', () => other.terms.length === 0, 300)
  finish()
  await steppedDown
  await until('the other candidate leads', () => other.campaign.leads)
})

test('an instance that lost its term starts the next term only after its function has ended', async () => {
  const [a] = await fleet(1)
  const finish: (() => void)[] = []
  const { campaign: only, terms } = campaign(a!, 'outlived', {
    work: () => new Promise<void>((resolve) => finish.push(resolve)),
  })
  await until('the candidate leads', () => only.leads)
  await sql(fresh.url, 'select pg_terminate_backend($1)', [await anchorPid(fresh.url, a!)])
  await until('the signal is aborted', () => terms[0]!.signal.aborted)
  expect(terms[0]!.signal.reason).toMatchObject({ code: 'LOCK_LOST' })
  expect(only.leads).toBe(false)
  await a!.locks.with('a life that works', () => {})
  await stays('no other term starts', () => terms.length === 1, 300)
  finish[0]!()
  await until('the candidate leads again', () => only.leads)
  expect(terms[1]!.term).toBeGreaterThan(terms[0]!.term)
  finish[1]!()
})

test('a late write of a former leader is refused', async () => {
  const candidates = (await fleet(2)).map((holdfast) => campaign(holdfast, 'guarded'))
  const first = await leading(candidates)
  const client = await sqlSession(fresh.url)
  await client.query('begin')
  await first.terms[0]!.guard(client)
  await client.query('commit')
  const { term } = first.terms[0]!
  await first.campaign.stepDown()
  const second = await leading(candidates)
  await client.query('begin')
  await second.terms[0]!.guard(client)
  await client.query('commit')
  const late = sql(fresh.url, 'select holdfast.guard($1, $2, $3)', [first.holdfast.namespace, 'election/guarded', term])
  expect(await late.catch((error) => error.code)).toBe('HF001')
  await caught(UsageError, first.terms[0]!.guard(client))
})

test('only the leader steps down after a release request, although the request also reaches the next leader', async () => {
  const candidates = (await fleet(2)).map((holdfast) => campaign(holdfast, 'released'))
  const first = await leading(candidates)
  const key = first.holdfast.locks.key('election/released')
  // After the request, the former leader pauses. Only a candidate that already waits benefits from this pause.
  await until('the other candidate waits', () => hasWaiters(key))
  await sql(fresh.url, `select pg_notify('holdfast', $1)`, [`lock-release-requested ${key} ${first.holdfast.id}`])
  await until('the leader receives the request', () => first.terms[0]!.signal.aborted)
  expect(first.terms[0]!.signal.reason).toMatchObject({ code: 'RELEASE_REQUESTED' })
  await until('the other candidate leads', async () => (await leading(candidates)) !== first)
  expect(candidates.flatMap(({ terms }) => terms)).toHaveLength(2)
})

test('close waits for a leader function that does not end at most for the expiry', async () => {
  const [a, b] = await fleet(2, { expiry: '2s' })
  const endless = campaign(a!, 'endless', { work: () => new Promise(() => {}) })
  await until('the candidate leads', () => endless.campaign.leads)
  const other = campaign(b!, 'endless')
  const closedFrom = performance.now()
  await within(5_000, 'close', a!.close())
  expect(performance.now() - closedFrom).toBeGreaterThan(1_900)
  expect(endless.terms[0]!.held).toBe(false)
  await until('the other candidate leads', () => other.campaign.leads)
})

describe('a preferred candidate', () => {
  test('a preferred candidate leads when it starts, and the other candidate leads again after it closes', async () => {
    const [a, b] = await fleet(2)
    const other = campaign(a!, 'preferred')
    await until('the other candidate leads', () => other.campaign.leads)
    const preferred = campaign(b!, 'preferred', { preferred: true })
    await until('the preferred candidate leads', () => preferred.campaign.leads)
    expect(other.terms[0]!.signal.reason).toMatchObject({ reason: 'preferred' })
    await preferred.campaign.close()
    await until('the other candidate leads again', () => other.campaign.leads)
    expect(other.terms).toHaveLength(2)
  })

  test('a preferred leader does not step down for other candidates, preferred or not', async () => {
    const instances = await fleet(4)
    const other = instances.slice(0, 2).map((holdfast) => campaign(holdfast, 'several'))
    await leading(other)
    const preferred = instances.slice(2).map((holdfast) => campaign(holdfast, 'several', { preferred: true }))
    const first = await leading(preferred)
    // During this time, the leader checks at least twice whether it should step down.
    await stays('the first candidate leads', () => first.campaign.leads, 5_000)
    expect(preferred.flatMap(({ terms }) => terms)).toHaveLength(1)
    expect(other.flatMap(({ terms }) => terms)).toHaveLength(1)
    await first.holdfast.close()
    await until('the other preferred candidate leads', async () => (await leading(preferred)) !== first)
    expect(other.flatMap(({ terms }) => terms)).toHaveLength(1)
  })

  test('the row of a dead preferred candidate does not prevent others from leading', async () => {
    const [a, b] = await fleet(2)
    await sql(
      fresh.url,
      "insert into holdfast.candidate values ($1, 'dead candidate', nextval('holdfast.session')::integer)",
      [a!.namespace],
    )
    const other = campaign(a!, 'dead candidate')
    await until('the other candidate leads', () => other.campaign.leads)
    const preferred = campaign(b!, 'dead candidate', { preferred: true })
    await until('the preferred candidate leads', () => preferred.campaign.leads)
    expect(await sql(fresh.url, "select count(*)::int from holdfast.candidate where name = 'dead candidate'")).toEqual([
      { count: 1 },
    ])
  })

  test('a preferred candidate is preferred again after it loses its session', async () => {
    const [a, b] = await fleet(2)
    const preferred = campaign(b!, 'comes back', { preferred: true })
    await until('the preferred candidate leads', () => preferred.campaign.leads)
    const other = campaign(a!, 'comes back')
    await sql(fresh.url, 'select pg_terminate_backend($1)', [await anchorPid(fresh.url, b!)])
    await until('the preferred candidate has lost its term', () => preferred.terms[0]!.signal.aborted)
    await until('the candidate leads again', () => preferred.campaign.leads)
    await until('the other candidate does not lead', () => !other.campaign.leads)
  })
})

describe('a preferred candidate that withdraws', () => {
  /** Runs `body` in a trigger on the candidates, until the returned function is called. Each test has its own database. */
  async function trigger(url: string, event: string, body: string): Promise<() => Promise<unknown>> {
    await sql(
      url,
      `create function public.disturb() returns trigger language plpgsql as $$ begin ${body}; return null; end $$;
       create trigger disturb ${event} on holdfast.candidate for each statement execute function public.disturb()`,
    )
    return () => sql(url, 'drop trigger disturb on holdfast.candidate')
  }

  test("another candidate leads although the deletion of a preferred candidate's row failed once", async () => {
    const url = await databaseUrl()
    const [a, b] = await openFleet(url, 2)
    let isEligible = true
    const preferred = campaign(a!, 'failed withdrawal', { preferred: true, eligible: () => isEligible })
    await until('the preferred candidate leads', () => preferred.campaign.leads)
    const other = campaign(b!, 'failed withdrawal')
    await other.campaign.ready()
    const undisturbed = await trigger(url, 'before delete', "raise exception 'no deletion'")
    isEligible = false
    await until(
      'the preferred candidate has stepped down',
      () => preferred.terms[0]!.signal.aborted && !preferred.terms[0]!.held,
    )
    await undisturbed()
    await until('the other candidate leads', () => other.campaign.leads)
  })

  test("another candidate leads although a preferred candidate's row was inserted after its campaign was closed", async () => {
    const url = await databaseUrl()
    const [a, b] = await openFleet(url, 2)
    const undisturbed = await trigger(url, 'after insert', 'perform pg_sleep(1.3)')
    const preferred = campaign(a!, 'late insert', { preferred: true })
    await until('the preferred candidate leads', () => preferred.campaign.leads)
    await preferred.campaign.close()
    await until('the row is inserted', async () => (await sql(url, 'select from holdfast.candidate')).length === 1)
    await undisturbed()
    const other = campaign(b!, 'late insert')
    await until('the other candidate leads', () => other.campaign.leads)
  })

  test('another candidate leads although a preferred candidate polls the election while its row is deleted', async () => {
    const url = await databaseUrl()
    const [a, b, c] = await openFleet(url, 3)
    const leader = campaign(a!, 'polled', { preferred: true })
    await until('the first preferred candidate leads', () => leader.campaign.leads)
    const preferred = campaign(b!, 'polled', { preferred: true })
    await until('both are enrolled', async () => (await sql(url, 'select from holdfast.candidate')).length === 2)
    const other = campaign(c!, 'polled')
    await other.campaign.ready()
    const undisturbed = await trigger(url, 'after delete', 'perform pg_sleep(0.4)')
    const closed = preferred.campaign.close()
    await until(
      'the row is being deleted',
      async () => (await sql(url, "select from pg_stat_activity where wait_event = 'PgSleep'")).length > 0,
    )
    await sql(url, "select pg_notify('holdfast', 'election-changed ' || $1)", [b!.locks.key('election/polled')])
    await closed
    await undisturbed()
    await leader.campaign.close()
    await until('the other candidate leads', () => other.campaign.leads)
  })
})

describe('a candidate that is not eligible', () => {
  test('a candidate leads only while it is eligible, and steps down afterwards', async () => {
    const [a, b] = await fleet(2)
    let healthy = false
    const candidate = campaign(a!, 'eligible', { eligible: () => healthy })
    const other = campaign(b!, 'eligible', { eligible: async () => true })
    await until('the other candidate leads', () => other.campaign.leads)
    await other.campaign.stepDown()
    await until('the other candidate leads again', () => other.campaign.leads)
    expect(candidate.terms).toEqual([])
    healthy = true
    // The candidate checks its eligibility periodically.
    await until('the candidate leads', async () => {
      await other.campaign.stepDown()
      return candidate.campaign.leads
    })
    healthy = false
    await until('the candidate does not lead', () => !candidate.campaign.leads)
    expect(candidate.terms.at(-1)!.signal.reason).toMatchObject({ reason: 'not-eligible' })
    await until('the other candidate leads', () => other.campaign.leads)
  })

  test('a candidate does not lead again until a pending call of eligible has resolved', async () => {
    const [a] = await fleet(1)
    const pending: ((isEligible: boolean) => void)[] = []
    let hasLed = false
    const slow = campaign(a!, 'slow eligible', {
      eligible: () => !hasLed || new Promise((resolve) => pending.push(resolve)),
      work: (leadership) => {
        hasLed = true
        return untilAborted(leadership)
      },
    })
    await until('eligible is called while the candidate leads', () => slow.campaign.leads && pending.length > 0)
    await slow.campaign.stepDown()
    // A candidate pauses for one second before it campaigns again.
    await stays('no second term starts', () => slow.terms.length === 1, 1_300)
    pending[0]!(true)
    await until('the candidate leads', () => slow.terms.length === 2)
    await until('eligible is called again', () => pending.length === 2)
    await slow.campaign.stepDown()
    await within(5_000, 'close with a pending call', slow.campaign.close())
  })

  test('a candidate whose eligible function throws does not lead, and the error is reported', async () => {
    const [a] = await fleet(1)
    const failing = campaign(a!, 'failing eligible', {
      eligible: () => {
        throw new Error('no idea')
      },
    })
    await until('the error is reported', () => failing.errors.length > 0)
    expect(failing.errors[0]).toMatchObject({ message: 'no idea' })
    expect(failing.terms).toEqual([])
  })
})

test('leader returns the time in a database with another DateStyle', async () => {
  const url = await databaseUrl()
  await sql(url, `alter database "${new URL(url).pathname.slice(1)}" set datestyle = 'SQL, DMY'`)
  const holdfast = await open({ url })
  const { campaign: only } = campaign(holdfast, 'other style')
  await until('the candidate leads', () => only.leads)
  const leader = await until('the leader is announced', () => holdfast.elections.leader('other style'))
  expect(Math.abs(leader.since.getTime() - Date.now())).toBeLessThan(60_000)
})

describe('elections.watch', () => {
  test('watch yields the current leader and every change, including null', async () => {
    const [a, b] = await fleet(2)
    const changes = b!.elections.watch('watched')
    const next = async () => (await within(10_000, 'the change', changes.next())).value
    expect(await next()).toBeNull()
    const first = campaign(a!, 'watched')
    const leader = await next()
    // The watcher can receive the change before the leader's own handle shows it.
    await until('the campaign has its term', () => first.campaign.term !== null)
    expect(leader).toMatchObject({ instance: a!.id, term: first.campaign.term })
    await first.campaign.close()
    expect(await next()).toBeNull()
    await changes.return()
  })

  test('watch yields null after the leader dies, without a notification', async () => {
    const [a, b] = await fleet(2)
    campaign(a!, 'dying')
    const changes = b!.elections.watch('dying')
    const untilLed = async () => {
      for await (const leader of changes) if (leader) return leader
      return undefined
    }
    await within(10_000, 'the first leader', untilLed())
    // After a kill, the row remains and no process sends a notification.
    const again = b!.elections.watch('dying')
    expect((await again.next()).value).toMatchObject({ instance: a!.id })
    await sql(fresh.url, "update holdfast.election set session = 2147483647 where name = 'dying'")
    expect((await within(10_000, 'the change to null', again.next())).value).toBeNull()
  })

  test('watch ends when its signal aborts or the instance closes', async () => {
    const [a, b] = await fleet(2)
    const controller = new AbortController()
    const yielded: unknown[] = []
    const first = (async () => {
      for await (const leader of a!.elections.watch('ending', { signal: controller.signal })) yielded.push(leader)
    })()
    const second = (async () => {
      for await (const leader of b!.elections.watch('ending')) yielded.push(leader)
    })()
    await until('both watchers have yielded', () => yielded.length === 2)
    controller.abort()
    await within(15_000, 'the end of the first watcher', first)
    await b!.close()
    await within(15_000, 'the end of the second watcher', second)
    expect(yielded).toEqual([null, null])
  })
})

test('a campaign leads and reports a PermissionError if its role cannot write the leader, and readers get the error', async () => {
  const { url, role } = await roleUrl(fresh.url)
  await sql(
    fresh.url,
    `grant usage on schema holdfast to ${role};
     grant all on all tables in schema holdfast to ${role};
     grant all on all sequences in schema holdfast to ${role};
     revoke all on holdfast.election from ${role}`,
  )
  const holdfast = await open({ url, namespace: 'no rights' })
  const { campaign: only, errors } = campaign(holdfast, 'silent')
  await until('the candidate leads', () => only.leads)
  await until('the error is reported', () => errors.length > 0)
  expect(errors[0]).toBeInstanceOf(PermissionError)
  await caught(PermissionError, holdfast.elections.leader('silent'))
  await caught(PermissionError, within(5_000, 'the first result of watch', holdfast.elections.watch('silent').next()))
  await only.close()
})

describe('invalid calls of elections', () => {
  test.each<[unknown[], string]>([
    [['', () => {}], 'Expected the election to be a string of 1 to 500 characters without zero bytes, got "" (string)'],
    [[7, () => {}], 'Expected the election to be a string of 1 to 500 characters without zero bytes, got 7 (number)'],
    [['x'.repeat(495), () => {}], 'Expected the election name, including its prefix, to be a string of 1 to 500'],
    [['a'], 'Expected the last argument of elections.campaign to be a function, got undefined'],
    [['a', { prefered: true }, () => {}], 'elections.campaign has no option "prefered": did you mean "preferred"?'],
    [['a', { preferred: 1 }, () => {}], 'Expected preferred to be true or false, got 1 (number)'],
    [
      ['a', { eligible: true }, () => {}],
      'Expected eligible to be a function that returns whether this instance may lead, got true (boolean)',
    ],
    [['a', 'fast', () => {}], 'Expected the options of elections.campaign to be an object, got "fast" (string)'],
  ])('elections.campaign refuses the arguments %j', async (given, message) => {
    const [a] = await fleet(1)
    const campaign = a!.elections.campaign.bind(a!.elections) as (...given: unknown[]) => unknown
    expect((await caught(UsageError, () => campaign(...given))).message).toContain(message)
  })

  test('elections.campaign refuses a second campaign of the instance for the same name', async () => {
    const [a] = await fleet(1)
    const first = campaign(a!, 'twice')
    const error = await caught(UsageError, () => a!.elections.campaign('twice', () => {}))
    expect(error.message).toBe('This instance is already campaigning for "twice"')
    await first.campaign.close()
    const second = campaign(a!, 'twice')
    await until('the candidate leads', () => second.campaign.leads)
  })

  test('elections.watch refuses an invalid signal and an invalid name', async () => {
    const [a] = await fleet(1)
    expect((await caught(UsageError, () => a!.elections.watch('a', { signal: 1 as never }))).message).toBe(
      'Expected signal to be an AbortSignal, got 1 (number)',
    )
    await caught(UsageError, () => a!.elections.watch(''))
    await caught(UsageError, a!.elections.leader('a\0b'))
  })

  test('campaign, watch and leader throw ClosedError after close', async () => {
    const [a] = await fleet(1)
    await a!.close()
    await caught(ClosedError, () => a!.elections.campaign('late', () => {}))
    await caught(ClosedError, () => a!.elections.watch('late'))
    await caught(ClosedError, a!.elections.leader('late'))
  })
})
