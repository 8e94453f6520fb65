import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ClosedError, type HoldfastOptions, PermissionError, SteppedDownError, UsageError } from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { caught, sql, sqlSession, stays, until, within } from '../setup/facts.js'
import { anchorPid, open, openFleet, roleUrl } from '../setup/instances.js'
import { campaign, leading, untilAborted } from './fixture.js'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

const fleet = (size: number, options?: Partial<HoldfastOptions>) => openFleet(fresh.url, size, options)

async function isWaitedFor(key: string): Promise<boolean> {
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
])('%s', (_, options) => {
  test('one of several leads, and everybody knows who', async () => {
    const instances = await fleet(3, options)
    expect(await instances[0]!.elections.leader('indexer')).toBeNull()
    const candidates = instances.map((holdfast) => campaign(holdfast, 'indexer'))
    const { holdfast, campaign: led, terms } = await leading(candidates)
    expect(led).toMatchObject({ name: 'indexer', leads: true, term: terms[0]!.term })
    expect(terms[0]).toMatchObject({ name: 'indexer', held: true })
    for (const instance of instances) {
      const leader = await instance.elections.leader('indexer')
      expect(leader).toEqual({ instance: holdfast.id, term: terms[0]!.term, since: expect.any(Date) })
    }
    expect(candidates.flatMap(({ terms }) => terms)).toHaveLength(1)
    const others = candidates.filter(({ campaign }) => campaign !== led)
    expect(others.map(({ campaign }) => [campaign.leads, campaign.term])).toEqual([
      [false, null],
      [false, null],
    ])
  })

  test('a leader that steps down is followed by another, with a larger term', async () => {
    const candidates = (await fleet(2, options)).map((holdfast) => campaign(holdfast, 'indexer'))
    const first = await leading(candidates)
    const key = first.holdfast.locks.key('election/indexer')
    if (options.anchor !== 'none') await until('the other stands', () => isWaitedFor(key))
    await first.campaign.stepDown()
    expect(first.campaign.leads).toBe(false)
    expect(first.terms[0]!.held).toBe(false)
    expect(first.terms[0]!.signal.reason).toBeInstanceOf(SteppedDownError)
    expect(first.terms[0]!.signal.reason).toMatchObject({ election: 'indexer', reason: 'asked', code: 'STEPPED_DOWN' })
    const second = await leading(candidates)
    expect(second).not.toBe(first)
    expect(second.terms[0]!.term).toBeGreaterThan(first.terms[0]!.term)
    await until('the others know', async () => {
      const leader = await first.holdfast.elections.leader('indexer')
      return leader?.instance === second.holdfast.id && leader.term === second.campaign.term
    })
    expect(second.errors.concat(first.errors)).toEqual([])
  })

  test('an instance that closes hands over', async () => {
    const candidates = (await fleet(2, options)).map((holdfast) => campaign(holdfast, 'indexer'))
    const first = await leading(candidates)
    await first.holdfast.close()
    expect(first.terms[0]!.signal.reason).toMatchObject({ reason: 'closing' })
    const second = await leading(candidates)
    expect(second.terms[0]!.term).toBeGreaterThan(first.terms[0]!.term)
    await until('the other knows', async () => (await second.holdfast.elections.leader('indexer')) !== null)
    await second.campaign.close()
    expect(await second.holdfast.elections.leader('indexer')).toBeNull()
  })

  test('a leader without followers leads again after a pause', async () => {
    const [holdfast] = await fleet(1, options)
    const { campaign: only, terms } = campaign(holdfast!, 'alone')
    await until('it leads', () => only.leads)
    await only.stepDown()
    await until('it leads again', () => only.leads)
    expect(terms[1]!.term).toBeGreaterThan(terms[0]!.term)
  })
})

test('a function that returns steps down, and is run again while nobody else leads', async () => {
  const [a] = await fleet(1)
  const { terms, errors } = campaign(a!, 'short', { work: () => {} })
  await until('three terms', () => terms.length >= 3)
  expect(terms.map(({ term }) => term)).toEqual(terms.map(({ term }) => term).sort((x, y) => x - y))
  expect(errors).toEqual([])
})

test('a function that throws is told of, and another instance leads', async () => {
  const [a, b] = await fleet(2)
  const failing = campaign(a!, 'failing', {
    work: () => {
      throw new Error('no disk')
    },
  })
  await until('it has failed', () => failing.errors.length > 0)
  expect(failing.errors[0]).toMatchObject({ message: 'no disk' })
  const other = campaign(b!, 'failing')
  await until('the other leads', () => other.campaign.leads)
})

test('what only echoes the signal is no error', async () => {
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
    await until(`it leads for the ${term}. time`, () => only.leads && terms.length === term)
    await only.stepDown()
  }
  expect(errors).toEqual([])
})

test('a leader that was asked to step down leads alone until it has ended', async () => {
  const instances = await fleet(2)
  let finish = () => {}
  const stubborn = campaign(instances[0]!, 'stubborn', {
    work: () =>
      new Promise<void>((resolve) => {
        finish = resolve
      }),
  })
  await until('it leads', () => stubborn.campaign.leads)
  const other = campaign(instances[1]!, 'stubborn')
  const steppedDown = stubborn.campaign.stepDown()
  expect(stubborn.terms[0]!.signal.aborted).toBe(true)
  expect(stubborn.terms[0]!.held).toBe(true)
  await stays('nobody else leads', () => other.terms.length === 0, 300)
  finish()
  await steppedDown
  await until('the other leads', () => other.campaign.leads)
})

test('an instance whose term was lost does not begin another before its function has ended', async () => {
  const [a] = await fleet(1)
  const finish: (() => void)[] = []
  const { campaign: only, terms } = campaign(a!, 'outlived', {
    work: () => new Promise<void>((resolve) => finish.push(resolve)),
  })
  await until('it leads', () => only.leads)
  await sql(fresh.url, 'select pg_terminate_backend($1)', [await anchorPid(fresh.url, a!)])
  await until('it is told', () => terms[0]!.signal.aborted)
  expect(terms[0]!.signal.reason).toMatchObject({ code: 'LOCK_LOST' })
  expect(only.leads).toBe(false)
  await a!.locks.with('a life that works', () => {})
  await stays('no other term begins', () => terms.length === 1, 300)
  finish[0]!()
  await until('it leads again', () => only.leads)
  expect(terms[1]!.term).toBeGreaterThan(terms[0]!.term)
  finish[1]!()
})

test('what a leader of the past writes late is refused', async () => {
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

test('an operator asks the leader to step down as it asks the holder of a lock', async () => {
  const candidates = (await fleet(2)).map((holdfast) => campaign(holdfast, 'released'))
  const first = await leading(candidates)
  const key = first.holdfast.locks.key('election/released')
  // The pause of whoever was asked is a start for those who stand, and for nobody else.
  await until('the other stands', () => isWaitedFor(key))
  await sql(fresh.url, "select pg_notify('holdfast', 'lock-release-requested ' || $1)", [key])
  await until('it was asked', () => first.terms[0]!.signal.aborted)
  expect(first.terms[0]!.signal.reason).toMatchObject({ code: 'RELEASE_REQUESTED' })
  await until('the other leads', async () => (await leading(candidates)) !== first)
})

test('a function that does not end keeps its instance from closing for the expiry, and no longer', async () => {
  const [a, b] = await fleet(2, { expiry: '2s' })
  const deaf = campaign(a!, 'deaf', { work: () => new Promise(() => {}) })
  await until('it leads', () => deaf.campaign.leads)
  const other = campaign(b!, 'deaf')
  const beganAt = performance.now()
  await within(5_000, 'Closing', a!.close())
  expect(performance.now() - beganAt).toBeGreaterThan(1_900)
  expect(deaf.terms[0]!.held).toBe(false)
  await until('the other leads', () => other.campaign.leads)
})

describe('a preferred instance', () => {
  test('leads as soon as it is there, and the other again when it has gone', async () => {
    const [a, b] = await fleet(2)
    const usual = campaign(a!, 'preferred')
    await until('the usual one leads', () => usual.campaign.leads)
    const preferred = campaign(b!, 'preferred', { preferred: true })
    await until('the preferred one leads', () => preferred.campaign.leads)
    expect(usual.terms[0]!.signal.reason).toMatchObject({ reason: 'preferred' })
    await preferred.campaign.close()
    await until('the usual one leads again', () => usual.campaign.leads)
    expect(usual.terms).toHaveLength(2)
  })

  test('makes no room for others that are preferred, nor for those that are not', async () => {
    const instances = await fleet(4)
    const usual = instances.slice(0, 2).map((holdfast) => campaign(holdfast, 'several'))
    await leading(usual)
    const preferred = instances.slice(2).map((holdfast) => campaign(holdfast, 'several', { preferred: true }))
    const first = await leading(preferred)
    // Two looks and more, in which somebody could make room.
    await stays('the first leads', () => first.campaign.leads, 5_000)
    expect(preferred.flatMap(({ terms }) => terms)).toHaveLength(1)
    expect(usual.flatMap(({ terms }) => terms)).toHaveLength(1)
    await first.holdfast.close()
    await until('the other preferred one leads', async () => (await leading(preferred)) !== first)
    expect(usual.flatMap(({ terms }) => terms)).toHaveLength(1)
  })

  test('whose presence has ended keeps nobody from leading', async () => {
    const [a, b] = await fleet(2)
    await sql(
      fresh.url,
      "insert into holdfast.candidate values ($1, 'haunted', nextval('holdfast.session')::integer)",
      [a!.namespace],
    )
    const usual = campaign(a!, 'haunted')
    await until('the usual one leads', () => usual.campaign.leads)
    const preferred = campaign(b!, 'haunted', { preferred: true })
    await until('the preferred one leads', () => preferred.campaign.leads)
    expect(await sql(fresh.url, "select count(*)::int from holdfast.candidate where name = 'haunted'")).toEqual([
      { count: 1 },
    ])
  })

  test('is preferred again after its session was ended', async () => {
    const [a, b] = await fleet(2)
    const preferred = campaign(b!, 'comes back', { preferred: true })
    await until('the preferred one leads', () => preferred.campaign.leads)
    const usual = campaign(a!, 'comes back')
    await sql(fresh.url, 'select pg_terminate_backend($1)', [await anchorPid(fresh.url, b!)])
    await until('it lost its term', () => preferred.terms[0]!.signal.aborted)
    await until('it leads again', () => preferred.campaign.leads)
    await until('the usual one does not', () => !usual.campaign.leads)
  })
})

describe('an instance that is not eligible', () => {
  test('does not lead, and steps down when it becomes so', async () => {
    const [a, b] = await fleet(2)
    let healthy = false
    const doubtful = campaign(a!, 'eligible', { eligible: () => healthy })
    const other = campaign(b!, 'eligible', { eligible: async () => true })
    await until('the other leads', () => other.campaign.leads)
    await other.campaign.stepDown()
    await until('the other leads again', () => other.campaign.leads)
    expect(doubtful.terms).toEqual([])
    healthy = true
    // It stands when it has looked again.
    await until('it leads', async () => {
      await other.campaign.stepDown()
      return doubtful.campaign.leads
    })
    healthy = false
    await until('it does not lead any more', () => !doubtful.campaign.leads)
    expect(doubtful.terms.at(-1)!.signal.reason).toMatchObject({ reason: 'not-eligible' })
    await until('the other leads', () => other.campaign.leads)
  })

  test('does not stand before it has answered, also where it was asked while it led', async () => {
    const [a] = await fleet(1)
    const answers: ((answer: boolean) => void)[] = []
    let hasLed = false
    const slow = campaign(a!, 'slow to tell', {
      eligible: () => !hasLed || new Promise((resolve) => answers.push(resolve)),
      work: (leadership) => {
        hasLed = true
        return untilAborted(leadership)
      },
    })
    await until('it is asked while it leads', () => slow.campaign.leads && answers.length > 0)
    await slow.campaign.stepDown()
    // The pause before it stands again is a second.
    await stays('it leads no second term', () => slow.terms.length === 1, 1_300)
    answers[0]!(true)
    await until('it leads', () => slow.terms.length === 2)
    await until('it is asked again', () => answers.length === 2)
    await slow.campaign.stepDown()
    await within(5_000, 'Closing without an answer', slow.campaign.close())
  })

  test('is also one that cannot tell', async () => {
    const [a] = await fleet(1)
    const unsure = campaign(a!, 'unsure', {
      eligible: () => {
        throw new Error('no idea')
      },
    })
    await until('it is told of', () => unsure.errors.length > 0)
    expect(unsure.errors[0]).toMatchObject({ message: 'no idea' })
    expect(unsure.terms).toEqual([])
  })
})

describe('watching', () => {
  test('shows who leads, and every change, also to nobody', async () => {
    const [a, b] = await fleet(2)
    const changes = b!.elections.watch('watched')
    const next = async () => (await within(10_000, 'A change', changes.next())).value
    expect(await next()).toBeNull()
    const first = campaign(a!, 'watched')
    const leader = await next()
    // Who watches may hear of it before the leader itself does.
    await until('it knows that it leads', () => first.campaign.term !== null)
    expect(leader).toMatchObject({ instance: a!.id, term: first.campaign.term })
    await first.campaign.close()
    expect(await next()).toBeNull()
    await changes.return()
  })

  test('hears of a leader that died, without anybody to tell it', async () => {
    const [a, b] = await fleet(2)
    campaign(a!, 'dying')
    const changes = b!.elections.watch('dying')
    const untilLed = async () => {
      for await (const leader of changes) if (leader) return leader
      return undefined
    }
    await within(10_000, 'A leader', untilLed())
    // What a kill does: the row stays, and nobody notifies.
    const again = b!.elections.watch('dying')
    expect((await again.next()).value).toMatchObject({ instance: a!.id })
    await sql(fresh.url, "update holdfast.election set session = 2147483647 where name = 'dying'")
    expect((await within(10_000, 'The change', again.next())).value).toBeNull()
  })

  test('ends when the signal aborts, and when the instance closes', async () => {
    const [a, b] = await fleet(2)
    const controller = new AbortController()
    const seen: unknown[] = []
    const first = (async () => {
      for await (const leader of a!.elections.watch('ending', { signal: controller.signal })) seen.push(leader)
    })()
    const second = (async () => {
      for await (const leader of b!.elections.watch('ending')) seen.push(leader)
    })()
    await until('both see', () => seen.length === 2)
    controller.abort()
    await within(15_000, 'The first', first)
    await b!.close()
    await within(15_000, 'The second', second)
    expect(seen).toEqual([null, null])
  })
})

test('a role without the rights to tell who leads: the campaign leads and says so, followers are told', async () => {
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
  await until('it leads', () => only.leads)
  await until('it is told', () => errors.length > 0)
  expect(errors[0]).toBeInstanceOf(PermissionError)
  await caught(PermissionError, holdfast.elections.leader('silent'))
  await caught(PermissionError, within(5_000, 'The first look', holdfast.elections.watch('silent').next()))
  await only.close()
})

describe('mistakes', () => {
  test.each<[unknown[], string]>([
    [['', () => {}], 'Expected the election to be a string of 1 to 500 characters without zero bytes, got "" (string)'],
    [[7, () => {}], 'Expected the election to be a string of 1 to 500 characters without zero bytes, got 7 (number)'],
    [['x'.repeat(495), () => {}], 'Expected the election name, including its prefix, to be a string of 1 to 500'],
    [['a'], 'Expected the second argument of elections.campaign to be a function, got undefined'],
    [['a', () => {}, { prefered: true }], 'elections.campaign has no option "prefered": did you mean "preferred"?'],
    [['a', () => {}, { preferred: 1 }], 'Expected preferred to be true or false, got 1 (number)'],
    [
      ['a', () => {}, { eligible: true }],
      'Expected eligible to be a function that returns whether this instance may lead, got true (boolean)',
    ],
    [['a', () => {}, 'fast'], 'Expected the options of elections.campaign to be an object, got "fast" (string)'],
  ])('campaign(%j)', async (given, message) => {
    const [a] = await fleet(1)
    const ask = a!.elections.campaign.bind(a!.elections) as (...given: unknown[]) => unknown
    expect((await caught(UsageError, () => ask(...given))).message).toContain(message)
  })

  test('a second campaign of one instance for one election', async () => {
    const [a] = await fleet(1)
    const first = campaign(a!, 'twice')
    const error = await caught(UsageError, () => a!.elections.campaign('twice', () => {}))
    expect(error.message).toBe('This instance is already campaigning for "twice"')
    await first.campaign.close()
    const second = campaign(a!, 'twice')
    await until('it leads', () => second.campaign.leads)
  })

  test('watching with what is no signal, or no name', async () => {
    const [a] = await fleet(1)
    expect((await caught(UsageError, () => a!.elections.watch('a', { signal: 1 as never }))).message).toBe(
      'Expected signal to be an AbortSignal, got 1 (number)',
    )
    await caught(UsageError, () => a!.elections.watch(''))
    await caught(UsageError, a!.elections.leader('a\0b'))
  })

  test('a closed instance', async () => {
    const [a] = await fleet(1)
    await a!.close()
    await caught(ClosedError, () => a!.elections.campaign('late', () => {}))
    await caught(ClosedError, () => a!.elections.watch('late'))
    await caught(ClosedError, a!.elections.leader('late'))
  })
})
