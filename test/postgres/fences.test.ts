// Tests that later fences are larger: across reconnects, changed timelines and systems, and all other differences that the row
// of `server_generation` shows. Crashes and promotions: see restart.test.ts and standby.test.ts. Restored dumps and other
// copies: test/fault/restores.test.ts.
import { describe, expect, test } from 'vitest'
import { DatabaseError } from '../../src/index.js'
import { migrate, openPgPool, quoteIdentifier } from '../../src/postgres/index.js'
import { fixes, found } from '../doctor/fixture.js'
import { caught, sql, sqlSession, until } from '../setup/facts.js'
import { anchorPid, databaseUrl, emptyDatabaseUrl, open } from '../setup/instances.js'

/** Number that the clock adds to fences in a second, and number by which a generation begins ahead of the clock. */
const [second, minute] = [2 ** 20, 2 ** 26]

async function nextFence(url: string): Promise<number> {
  const [row] = await sql<{ fence: string }>(url, "select nextval('holdfast.fence') as fence")
  return Number(row!.fence)
}

const advance = (url: string) => sql(url, 'select holdfast.advance_fence()')
const record = (url: string, change: string) => sql(url, `update holdfast.server_generation set ${change}`)

test('fences grow with every grant, for any name and any instance', async () => {
  const url = await databaseUrl()
  const [a, b] = [await open({ url }), await open({ url })]
  const fences: number[] = []
  for (let i = 0; i < 5; i++) {
    for (const { locks } of [a, b]) await locks.with(`name ${i % 2}`, ({ fence }) => fences.push(fence))
  }
  expect(fences).toEqual([...fences].sort((one, other) => one - other))
  expect(new Set(fences).size).toBe(fences.length)
})

/** The floor of the server's clock: 2^20 for each second since 2020. Calculated here, so that a wrong clock_floor() is noticed. */
async function clock(url: string): Promise<number> {
  const [row] = await sql<{ now: string }>(url, 'select extract(epoch from clock_timestamp()) as now')
  return Math.floor((Number(row!.now) - Date.UTC(2020, 0) / 1_000) * second)
}

async function generation(url: string): Promise<number> {
  const [row] = await sql<{ generation: number }>(url, 'select generation from holdfast.server_generation')
  return row!.generation
}

const setBack = (url: string, sequence: string, to: number | string) =>
  sql(url, `select setval('holdfast.${sequence}', ${to})`)

/** Writes the row as advance_fence() would, so that the server cannot detect that another server has written it. */
const recordAsOurs = (url: string, change: string) =>
  sql(url, `update holdfast.server_generation set ${change}, written_by = pg_current_xact_id()::xid`)

test('fences are above the floor of the clock after every opening and reconnect', async () => {
  const url = await databaseUrl()
  const instance = await open({ url })
  // As after a whole machine was set back, with its memory: nothing in the database shows it.
  await setBack(url, 'fence', 5)
  await recordAsOurs(url, 'fence_floor = 5')
  const before = await clock(url)
  await sql(url, 'select pg_terminate_backend($1)', [await anchorPid(url, instance)])
  await until('the instance has reconnected', async () => {
    const [row] = await sql<{ reconnects: number }>(url, 'select reconnects from holdfast.instance')
    return row!.reconnects === 1
  })
  expect(await instance.locks.with('name', { wait: '10s' }, ({ fence }) => fence)).toBeGreaterThan(before)
  await setBack(url, 'fence', 5)
  await recordAsOurs(url, 'fence_floor = 5')
  const opened = await (await open({ url })).locks.with('name', ({ fence }) => fence)
  expect(opened).toBeGreaterThan(before)
  expect(await generation(url)).toBe(1)
})

test('fences do not run ahead of the clock, however often instances open', async () => {
  const url = await databaseUrl()
  await advance(url)
  await sql(url, 'select holdfast.advance_fence() from generate_series(1, 1000)')
  expect(await nextFence(url)).toBeLessThan((await clock(url)) + minute + 3 * second)
})

test('fences are safe integers of JavaScript until after the year 2290', async () => {
  const url = await databaseUrl()
  await open({ url })
  const years = (Number.MAX_SAFE_INTEGER - (await nextFence(url))) / second / (365.25 * 86_400)
  expect(new Date().getFullYear() + years).toBeGreaterThan(2_290)
})

test.each([
  ['another timeline, as after a failover', 'timeline = timeline + 1'],
  ['another system, as after an upgrade', 'system_identifier = system_identifier + 1'],
  ['another start, as after a restart', "started_at = started_at - interval '1 hour'"],
  ['another database, as of a copy', 'database = 1'],
  ['another writer of its row, as after a restore', 'written_by = written_by'],
])('fences jump a minute ahead of the clock, once, after a change: %s', async (_, change) => {
  const url = await databaseUrl()
  await advance(url)
  await (change.startsWith('written_by') ? record(url, change) : recordAsOurs(url, change))
  const before = await clock(url)
  await advance(url)
  expect(await generation(url)).toBe(2)
  expect(await nextFence(url)).toBeGreaterThan(before + minute)
  await advance(url)
  expect(await generation(url)).toBe(2)
})

test('fences jump ahead if the clock was set back and the database does not show it', async () => {
  const url = await databaseUrl()
  await advance(url)
  const hour = 3_600 * second
  await sql(url, `select setval('holdfast.fence', holdfast.clock_floor() + ${hour})`)
  const before = await nextFence(url)
  await record(url, 'written_by = written_by')
  await advance(url)
  expect(await nextFence(url)).toBeGreaterThan(before + minute)
})

test('a generation begins once, however many sessions notice it', async () => {
  const url = await databaseUrl()
  await open({ url })
  await record(url, 'timeline = timeline + 1')
  await Promise.all(Array.from({ length: 10 }, () => advance(url)))
  expect(await generation(url)).toBe(2)
})

test('a generation that is noticed inside a savepoint counts, and is noticed once', async () => {
  const url = await databaseUrl()
  await advance(url)
  await record(url, 'timeline = timeline + 1')
  const client = await sqlSession(url)
  for (const statement of ['begin', 'savepoint one', 'select holdfast.advance_fence()', 'release one', 'commit']) {
    await client.query(statement)
  }
  expect(await sql(url, 'select holdfast.noticed_generation() as noticed')).toEqual([{ noticed: 2 }])
})

test('a statement that reads the era while another session begins the next one gets the next era', async () => {
  const url = await databaseUrl()
  await advance(url)
  await record(url, 'written_by = written_by')
  const [before] = await sql<{ era: number }>(url, 'select era from holdfast.server_generation')
  const next = [{ era: before!.era + 1 }]
  // The cursor has the snapshot from before the commit. So does a statement that is delayed after it has read the row.
  const client = await sqlSession(url)
  await client.query(
    'begin; declare era cursor for select era + holdfast.is_another_cluster()::integer as era from holdfast.server_generation',
  )
  await advance(url)
  expect((await client.query('fetch era')).rows).toEqual(next)
  expect(await sql(url, 'select holdfast.job_era() as era')).toEqual(next)
})

test.each([
  'vacuum full holdfast.server_generation',
  'vacuum freeze holdfast.server_generation',
  'cluster holdfast.server_generation using server_generation_pkey',
])('a DBA who rewrites the table begins no generation: %s', async (statement) => {
  const url = await databaseUrl()
  await advance(url)
  await sql(url, statement)
  expect(await sql(url, 'select holdfast.noticed_generation() as noticed')).toEqual([{ noticed: 1 }])
})

describe('sequences that were set back while the tables were not, as by logical replication', () => {
  test.each([
    ['lease', "insert into holdfast.lease values (1, '', '', $1, 1, 1, now(), now())"],
    ['claim', "insert into holdfast.claim (fence, session, token, ids) values ($1, 0, 0, '{}')"],
    [
      'ended jobs',
      "insert into holdfast.job_end (bucket, fence, session, claimed_at, is_done, ids) values (1, $1, 0, now(), true, '{1024}')",
    ],
    [
      'buried jobs',
      `insert into holdfast.job_stopped
         (id, queue, priority, kind, payload, state, enqueued_at, fence, failed, crashes, max_crashes)
       values (1, 1, 0, 'kind', '1', 'buried', now(), $1, 1, 0, 3)`,
    ],
    [
      'permit',
      "insert into holdfast.permit (key, token, session, instance, weight, max, fence, since) values (1, 1, 0, '', 1, 1, $1, now())",
    ],
    [
      'delivery',
      `insert into holdfast.delivery (namespace, key, state, token, session, instance, fence, started_at, expires_at)
       values ('', 'key', 'done', '', 0, '', $1, now(), now())`,
    ],
    [
      'election',
      "insert into holdfast.election (namespace, name, term, instance, since) values ('', '', $1, '', now())",
    ],
    [
      'done resource of a share',
      `insert into holdfast.share_done (namespace, share, round, resource, instance, fence, started_at, done_at)
       values ('', '', '', '', '', $1, now(), now())`,
    ],
    [
      'tick',
      `with added as (
         insert into holdfast.schedule (key, namespace, name, rule, overlap, missed, catch_up, reruns)
         values (1, '', '', '', 'skip', 'skip', 0, false)
       )
       insert into holdfast.tick (schedule, at, fence) values (1, now(), $1)`,
    ],
    [
      'term of a holder',
      `insert into holdfast.term (key, fence, kind, mode, instance, began_at, ended_at, why)
       values (1, $1, 'lock', 'exclusive', '', now(), now(), 'released')`,
    ],
    ['guarded', 'insert into holdfast.fence_guard (key, fence) values (1, $1)'],
    ['the row of server_generation alone', 'update holdfast.server_generation set fence_floor = $1'],
  ])('fences continue above those in the tables: %s', async (_, write) => {
    const url = await databaseUrl()
    await advance(url)
    // The fence is beyond what the clock allows for, so that only the tables contain it.
    const largest = (await clock(url)) + 1_000 * minute
    await sql(url, write, [largest])
    await found(url, 'sequence-behind')
    await record(url, 'system_identifier = 1')
    await advance(url)
    expect(await nextFence(url)).toBeGreaterThan(largest)
  })

  test('job ids, session numbers and audit ids continue above those in the tables', async () => {
    const url = await databaseUrl()
    await advance(url)
    await sql(
      url,
      `insert into holdfast.job (id, entry, era, queue, priority, kind, payload)
       values (holdfast.clock_floor() + ${1_000 * minute}, 1, 0, 1, 0, 'kind', '1');
       insert into holdfast.worker (session, number, instance, queues) values (50000, 1, 'gone', '{}');
       insert into holdfast.audit (id, visitor, act, subject, params, consequence) values (70, 'me', 'look', 'it', '{}', 'none')`,
    )
    const largest = (await clock(url)) + 999 * minute
    await record(url, 'system_identifier = 1')
    await advance(url)
    const [next] = await sql<Record<string, string>>(
      url,
      "select nextval('holdfast.job_number') as job, nextval('holdfast.session') as session, nextval('holdfast.audit_number') as audit",
    )
    expect(Number(next!.job)).toBeGreaterThan(largest)
    expect(Number(next!.session)).toBeGreaterThan(50_000)
    expect(Number(next!.audit)).toBeGreaterThan(70)
  })

  test('sequence_positions() reports each sequence of the schema once, with any name of the schema', async () => {
    const url = await emptyDatabaseUrl()
    const schema = 'a "schema" %s'
    const database = openPgPool({ connectionString: url })
    try {
      await migrate(database, schema)
    } finally {
      await database.close()
    }
    const here = quoteIdentifier(schema)
    const reported = await sql<{ name: string }>(
      url,
      `select relname as name from ${here}.sequence_positions() join pg_class on oid = sequence order by 1`,
    )
    expect(reported).toEqual(
      await sql(url, 'select sequencename as name from pg_sequences where schemaname = $1 order by 1', [schema]),
    )
  })

  test('sequence_positions() reads the other modules while the function of one module is missing', async () => {
    const url = await databaseUrl()
    await sql(url, 'drop function holdfast.limits_largest_numbers()')
    const reported = await sql<{ name: string }>(
      url,
      'select relname as name from holdfast.sequence_positions() join pg_class on oid = sequence order by 1',
    )
    expect(reported.map(({ name }) => name)).toEqual(['audit_number', 'fence', 'job_number', 'session'])
    await advance(url)
  })

  test('doctor names each sequence that is behind and moves it', async () => {
    const url = await databaseUrl()
    await open({ url })
    await sql(
      url,
      `insert into holdfast.permit (key, token, session, instance, weight, max, wait_order, since) values (1, 1, 0, '', 1, 1, 500, now());
       insert into holdfast.waiting (id, queue, priority, kind, payload, run_at) values (900, 1, 0, 'kind', '1', now() + interval '1 day')`,
    )
    const findings = await fixes(url, 'sequence-behind')
    expect(findings.map(({ subject, facts }) => [subject, facts.reached, facts.largest])).toEqual([
      ['job_number', '0', '900'],
      ['wait_order', '0', '500'],
    ])
    expect(findings[0]!.text).toBe('The sequence job_number is at 0, but the tables already contain 900')
  })
})

test('job ids begin at 1, and jump ahead of the clock after a restart that no instance has noticed', async () => {
  const url = await databaseUrl()
  const enqueue = async () => {
    const [row] = await sql<{ id: string }>(url, "select holdfast.enqueue('default', 'kind', '{}') as id")
    return Number(row!.id)
  }
  expect(await enqueue()).toBe(1)
  await advance(url)
  expect(await enqueue()).toBe(2)
  await recordAsOurs(url, "started_at = started_at - interval '1 hour'")
  const before = await clock(url)
  const first = await enqueue()
  expect(first).toBeGreaterThan(before)
  // A transaction of the user does not begin the generation, because all other sessions would wait for its end.
  expect(await sql(url, 'select holdfast.noticed_generation() as noticed')).toEqual([{ noticed: null }])
  await advance(url)
  expect(await enqueue()).toBeGreaterThan(first)
})

describe('a missing row of server_generation', () => {
  test('an opening writes a missing row of server_generation as a new generation, and fences grow', async () => {
    const url = await databaseUrl()
    const before = await (await open({ url })).locks.with('name', ({ fence }) => fence)
    await sql(url, 'delete from holdfast.server_generation')
    const next = await open({ url })
    expect(await next.locks.with('name', { wait: '20s' }, ({ fence }) => fence)).toBeGreaterThan(before)
    expect(await generation(url)).toBeGreaterThanOrEqual(2)
  })

  test('a grant through a pool writes a missing row of server_generation', async () => {
    const url = await databaseUrl()
    const instance = await open({ url, anchor: 'none', expiry: '2s' })
    const before = await instance.leases.acquire('name', { ttl: '1s' })
    await before.release()
    await sql(url, 'delete from holdfast.server_generation')
    const next = await instance.leases.acquire('name', { ttl: '1s', wait: '15s' })
    expect(next.fence).toBeGreaterThan(before.fence)
  })

  test('doctor reports a missing row of server_generation and writes it', async () => {
    const url = await databaseUrl()
    await advance(url)
    await sql(url, 'delete from holdfast.server_generation')
    const [finding] = await fixes(url, 'server-generation-missing')
    expect(finding!.text).toBe('The table server_generation is empty')
  })

  test('a grant writes no row of server_generation if the other tables are empty too, as during a restore', async () => {
    const url = await databaseUrl()
    const instance = await open({ url, anchor: 'none' })
    await sql(url, 'delete from holdfast.server_generation; delete from holdfast.migration')
    const error = await caught(DatabaseError, instance.leases.acquire('name', { ttl: '1s' }))
    expect(error.message).toBe('The tables of Holdfast are empty: a restore is under way, or has failed')
    expect(error.hint).toBe('Wait until the restore is complete. If none is under way, restore the backup again.')
    expect(error.retryable).toBe(true)
    expect(await sql(url, 'select from holdfast.server_generation')).toEqual([])
  })
})

test('a session number of a living session is not used by another session', async () => {
  const url = await databaseUrl()
  const one = await open({ url })
  const numberOf = async (id: string) =>
    (await sql<{ session: number }>(url, 'select session from holdfast.instance where id = $1', [id]))[0]!.session
  const taken = await numberOf(one.id)
  // As after the restore of a dump.
  await sql(url, `select setval('holdfast.session', ${taken}, false)`)
  const other = await open({ url })
  expect(await numberOf(other.id)).toBe(taken + 1)
})

test('fences never decrease while many instances open at the same time', async () => {
  const url = await databaseUrl()
  const drawn: number[] = []
  let opening = true
  const drawing = (async () => {
    while (opening) drawn.push(await nextFence(url))
  })()
  await Promise.all(Array.from({ length: 10 }, () => open({ url })))
  opening = false
  await drawing
  expect(drawn).toEqual([...drawn].sort((one, other) => one - other))
})

test.each([
  ['off', 'on'],
  ['remote_apply', 'remote_apply'],
])('advance_fence raises synchronous_commit to on, but does not lower it: %s becomes %s', async (given, during) => {
  const client = await sqlSession(await databaseUrl())
  await client.query(`set synchronous_commit = '${given}'`)
  await client.query('begin')
  await client.query('select holdfast.advance_fence()')
  expect((await client.query('show synchronous_commit')).rows).toEqual([{ synchronous_commit: during }])
})
