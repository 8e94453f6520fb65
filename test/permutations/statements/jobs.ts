import { begin, commit, isCommitted, type Report, resultOf, rollback, type Statement } from '../explore.js'
import { step, textOf } from '../sql.js'
import { dead, live, other, type Step, third, type World } from '../world.js'

const queue = '7001'
const kind = 'k'
/** Tables of the job queue that the statements fill. */
export const queueTables = [
  'claim',
  'job',
  'job_end',
  'job_stopped',
  'job_note',
  'job_skipped',
  'job_removed',
  'frontier',
  'waiting',
  'lane',
  'follow_up',
  'lane_reservation',
  'worker',
].map((table) => `holdfast.${table}`)

export interface Facts {
  /** Jobs that are enqueued and committed before the run. */
  readonly ids: readonly string[]
  /** Claim of the jobs, if they are claimed before the run. */
  readonly fence: string
}

export const heads = (count: number, links?: object) =>
  JSON.stringify([
    { queue, kind, priority: 0, max_crashes: 3, after_input: 0, last_input: count, ...(links && { links }) },
  ]).replace(`"${queue}"`, queue)
export const inputs = (count: number) => `[${Array(count).fill('null').join(',')}]`

const enqueueing = (count: number, isAlone = false) =>
  step('jobs', 'enqueue', [heads(count), inputs(count), isAlone, null, null, null, false])
export const claiming = (session: number, max: number) =>
  step('jobs', 'claim', [session, session, `{${queue}}`, [kind], max, false, true])
/** A worker whose claim received no response returns the jobs. */
const givingBack = (session: number) => step('jobs', 'give_back', [session, `{${session}}`])

export async function register(world: World, sessions: readonly number[]): Promise<void> {
  for (const session of sessions) {
    await world.query(textOf('jobs', 'register_worker'), [session, 1, `i${session}`, `{${queue}}`, [kind], '[]', 10])
  }
}

export async function enqueue(world: World, count: number, links?: object): Promise<string[]> {
  const values = [heads(count, links), inputs(count), true, null, null, null, false]
  const [row] = await world.query<{ ids: string }>(textOf('jobs', 'enqueue'), values)
  return row!.ids.split(',')
}

/** Claims everything that is ready for a worker that comes later. Returns the ids. */
export async function claimRest(world: World): Promise<string[]> {
  const claimed: string[] = []
  for (let round = 0; round < 20; round++) {
    const [row] = await world.run<{ state: string; fence: string | null; is_drained: boolean }>(claiming(third, 100))
    if (row!.fence !== null) {
      const [claim] = await world.query<{ ids: string[] }>('select ids::text[] from holdfast.claim where fence = $1', [
        row!.fence,
      ])
      claimed.push(...claim!.ids)
    } else if (row!.is_drained) return claimed
  }
  throw new Error('The queue is never drained')
}

/** Each of the jobs must be in exactly one claim. */
async function wrongClaims(world: World, ids: readonly string[]): Promise<string[]> {
  const rows = await world.query<{ id: string; times: number }>(
    'select id::text, count(*)::integer as times from holdfast.claim, unnest(ids) as id group by id',
  )
  const times = new Map(rows.map((row) => [row.id, row.times]))
  return ids
    .filter((id) => times.get(id) !== 1)
    .map((id) => `The job ${id} is in ${times.get(id) ?? 0} claims`)
    .concat(
      [...times.keys()]
        .filter((id) => !ids.includes(id))
        .map((id) => `The job ${id} was claimed, but its transaction did not commit`),
    )
}

/** Ids of jobs whose enqueueing has committed. Reads the tables, because a reply may be lost. */
async function committedIds(world: World): Promise<string[]> {
  const rows = await world.query<{ id: string }>('select distinct id::text from holdfast.job')
  return rows.map(({ id }) => id)
}

/** A claim that the caller knows about must exist, and claims of one queue get their fences in the order of their commits. */
async function wrongFences(world: World, reports: ReadonlyMap<string, Report>): Promise<string[]> {
  const rows = await world.query<{ fence: string }>('select fence::text from holdfast.claim')
  const stored = new Set(rows.map(({ fence }) => fence))
  const known = [...reports.values()]
    .filter(isCommitted)
    .flatMap(({ outcomes, knownFrom }) => outcomes.slice(knownFrom))
    .filter(({ step, rows: [row] }) => step === 'claim' && row?.fence)
    .sort((a, b) => a.endedAt - b.endedAt)
    .map(({ rows: [row] }) => String(row!.fence))
  return [
    ...known.filter((fence) => !stored.has(fence)).map((fence) => `The claim ${fence} is not stored`),
    ...known.flatMap((fence, at) =>
      at > 0 && BigInt(fence) <= BigInt(known[at - 1]!)
        ? [`The fence ${fence} is not larger than ${known[at - 1]}`]
        : [],
    ),
  ]
}

async function wrongAfterClaims(world: World, reports: ReadonlyMap<string, Report>): Promise<string[]> {
  const wrong = await wrongFences(world, reports)
  await claimRest(world)
  return [...wrong, ...(await wrongClaims(world, await committedIds(world)))]
}

export const claim: Statement<Facts> = {
  name: 'claim',
  functions: ['job_claim', 'job_enqueue'],
  tables: queueTables,
  bugs: [
    {
      name: 'claims of a queue are not serialized',
      function: 'job_claim',
      edits: [["perform pg_advisory_xact_lock(holdfast.lock_class('job claims'), object)", 'perform object']],
    },
    {
      name: 'a claim moves the frontier behind one entry more',
      function: 'job_read_window',
      edits: [['exit when count = 2;\n        last_xid', 'last_xid']],
    },
  ],
  async prepare(world) {
    await register(world, [live, other, third])
    return { ids: await enqueue(world, 3), fence: '' }
  },
  actors: () => [
    { name: 'A', steps: [begin, claiming(live, 2), commit], recovery: [givingBack(live)] },
    { name: 'B', steps: [begin, claiming(other, 1), commit], recovery: [givingBack(other)] },
    { name: 'producer', steps: [begin, enqueueing(1), commit], isBystander: true },
  ],
  check: (world, _, reports) => wrongAfterClaims(world, reports),
}

export const window: Statement<Facts> = {
  name: 'window',
  functions: ['job_claim', 'job_read_window', 'job_enqueue'],
  tables: queueTables,
  bugs: [
    {
      name: 'a window does not contain transactions that commit late',
      function: 'job_read_window',
      edits: [['if pg_snapshot_xmin(f.base) < pg_snapshot_xmax(f.base) then', 'if false then']],
    },
    {
      name: 'a window begins where this claim began',
      function: 'job_next_window',
      edits: [
        [
          'f.base := f.upto;\n      f.upto := pg_current_snapshot();',
          'f.base := pg_current_snapshot();\n      f.upto := pg_current_snapshot();',
        ],
      ],
    },
  ],
  async prepare(world) {
    await register(world, [live, other, third])
    return { ids: [], fence: '' }
  },
  actors: () => [
    { name: 'producer', steps: [begin, enqueueing(1), commit], isBystander: true },
    { name: 'late producer', steps: [begin, enqueueing(2), commit], isBystander: true },
    { name: 'worker', steps: [claiming(live, 1), claiming(live, 2), claiming(live, 5)], recovery: [givingBack(live)] },
    { name: 'failed producer', steps: [begin, enqueueing(1), rollback], isBystander: true, isTransaction: true },
  ],
  check: (world, _, reports) => wrongAfterClaims(world, reports),
}

export async function prepareClaimed(world: World, session: number): Promise<Facts> {
  await register(world, [session, third])
  const ids = await enqueue(world, 2)
  const [row] = await world.run<{ fence: string }>(claiming(session, 2))
  return { ids, fence: row!.fence }
}

const doneStep = ({ ids, fence }: Facts): Step => step('jobs', 'done', [`{${ids[0]}}`, `{${fence}}`, null, '{}'])
export const returnStep = ({ ids, fence }: Facts): Step =>
  step(
    'jobs',
    'end',
    [JSON.stringify([{ id: Number(ids[0]), fence: Number(fence), state: 'returned' }]), '{}'],
    'return',
  )

/** Rows of the first job: its ends by state, its entries, and its state. */
async function firstJob(world: World, { ids }: Facts) {
  const [row] = await world.query<{ done: number; undone: number; entries: number; state: string | null }>(
    `select
       (select count(*)::integer from holdfast.job_end where $1::bigint = any(ids) and is_done) as done,
       (select count(*)::integer from holdfast.job_end where $1::bigint = any(ids) and not is_done) as undone,
       (select count(*)::integer from holdfast.job where id = $1::bigint) as entries,
       (select state from holdfast.job_find(array[$1::bigint])) as state`,
    [ids[0]],
  )
  return row!
}

/** Whether `done` reported that the outcome is recorded. A null means that all outcomes were accepted. */
function isAccepted(row: Record<string, unknown> | undefined, id: string): boolean | undefined {
  if (row === undefined) return undefined
  return row.recorded === null || (row.recorded as string[]).map(String).includes(id)
}

export const end: Statement<Facts> = {
  name: 'end',
  functions: ['job_done', 'job_end', 'job_note_ends', 'job_cancel', 'job_lock_unended'],
  tables: queueTables,
  bugs: [
    {
      name: 'an end does not lock the claim',
      function: 'job_end',
      edits: [[/order by fence\n\s+for update;/, 'order by fence;']],
    },
    {
      name: 'an end is recorded although another end exists',
      function: 'job_note_ends',
      edits: [
        ['where not exists (select from earlier where earlier.id = asked.id and earlier.fence = asked.fence)', ''],
      ],
    },
  ],
  prepare: (world) => prepareClaimed(world, live),
  actors: (facts) => [
    { name: 'worker', steps: [begin, doneStep(facts), commit] },
    { name: 'second outcome', steps: [begin, returnStep(facts), commit] },
    { name: 'operator', steps: [begin, step('jobs', 'cancel', [facts.ids[0], 'not wanted']), commit] },
  ],
  async check(world, facts, reports) {
    const wrong: string[] = []
    const { done, undone, entries, state } = await firstJob(world, facts)
    if (done + undone > 1) wrong.push(`The attempt has ${done} ends as done and ${undone} other ends`)
    const isDone = isAccepted(resultOf(reports.get('worker'), 'done'), facts.ids[0]!)
    if (isDone && done !== 1) wrong.push('The worker was notified that its outcome is recorded, but it is not')
    // A repeated outcome is reported as refused, although the first one was accepted.
    const isReturned = isAccepted(resultOf(reports.get('second outcome'), 'return'), facts.ids[0]!)
    if (isReturned && undone !== 1) wrong.push('The second outcome was accepted, but it is not recorded')
    if (isDone && isReturned) wrong.push('Two outcomes of one attempt were accepted')
    const expected = done ? ['done'] : undone ? ['ready', 'cancelled'] : ['running']
    if (!expected.includes(state ?? '')) wrong.push(`The job is ${state}, not ${expected.join(' or ')}`)
    const isCancelled = isCommitted(reports.get('operator') ?? { actor: '', outcomes: [], knownFrom: 0 })
    if (state === 'cancelled' && !isCancelled) wrong.push('The job is cancelled, but no committed statement did that')
    // An operator can also cancel the job after it has returned.
    const entriesOf = { ready: [2], cancelled: [1, 2] }[state ?? ''] ?? [1]
    if (!entriesOf.includes(entries)) wrong.push(`The job has ${entries} entries and is ${state}`)
    if (state === 'ready' && !(await claimRest(world)).includes(facts.ids[0]!))
      wrong.push('The returned job is not claimed')
    return wrong
  },
}

const maintaining = step('jobs', 'maintain', [100])

export const takeOver: Statement<Facts> = {
  name: 'take-over',
  functions: ['job_maintain', 'job_take_over', 'job_end', 'job_done', 'job_claim'],
  tables: queueTables,
  bugs: [
    {
      name: 'a take-over does not exclude claims of the epoch',
      function: 'job_take_over',
      edits: [
        ["if not pg_try_advisory_xact_lock(holdfast.lock_class('claims of a session'), session) then", 'if false then'],
      ],
    },
    {
      name: 'a take-over returns jobs that have ended',
      function: 'job_end',
      edits: [
        [
          /where not exists \(\s+select\s+from holdfast\.job_end\s+where job_end\.bucket/,
          'where not exists (select from holdfast.job_end where false and job_end.bucket',
        ],
      ],
    },
  ],
  async prepare(world) {
    const facts = await prepareClaimed(world, dead)
    return { ...facts, ids: [...facts.ids, ...(await enqueue(world, 1))] }
  },
  actors: (facts) => [
    { name: 'maintenance', steps: [begin, maintaining, commit] },
    { name: 'dead worker', steps: [begin, doneStep(facts), commit] },
    { name: 'last claim', steps: [begin, claiming(dead, 5), commit], recovery: [claiming(dead, 5)] },
  ],
  async check(world, facts, reports) {
    const wrong: string[] = []
    for (let round = 0; ; round++) {
      await world.query(textOf('jobs', 'maintain'), [100])
      const [left] = await world.query<{ count: number }>(
        'select (select count(*) from holdfast.claim where session = $1)::integer + (select count(*) from holdfast.worker where session = $1)::integer as count',
        [dead],
      )
      if (left!.count === 0) break
      if (round > 5) return [...wrong, 'Claims of a dead epoch remain, and maintenance does not take them over']
    }
    const { done, state } = await firstJob(world, facts)
    const isDone = isAccepted(resultOf(reports.get('dead worker'), 'done'), facts.ids[0]!)
    if (isDone && done !== 1) wrong.push('The worker was notified that its outcome is recorded, but it is not')
    if (isDone === false && done !== 0)
      wrong.push('The worker was notified that its outcome was refused, but it is recorded')
    if (state !== (done ? 'done' : 'ready')) wrong.push(`The job is ${state} with ${done} ends as done`)
    await claimRest(world)
    return [...wrong, ...(await wrongClaims(world, facts.ids.slice(done)))]
  },
}
