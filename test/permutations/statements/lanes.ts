import { begin, commit, type Statement } from '../explore.js'
import { step, textOf } from '../sql.js'
import { live, type Outcome, other, third, type World } from '../world.js'
import { claiming, enqueue, heads, inputs, queueTables, register } from './jobs.js'

interface Facts {
  /** The first job runs. The other jobs wait for their admission. */
  readonly ids: readonly string[]
  readonly fence: string
}

const admitting = (id: string, session: number) => step('jobs', 'run_follow_ups', ['{}', `{${id}}`, session], 'admit')

/** Finishes all jobs like workers that come later. Returns violations. */
async function drain(world: World): Promise<string[]> {
  const ids = await world.query('select id from holdfast.job union select id from holdfast.waiting')
  const deadline = performance.now() + 10_000
  for (;;) {
    for (const session of [live, other, third])
      await world.query(textOf('jobs', 'run_follow_ups'), ['{}', '{}', session])
    // Lanes are checked again after a short time. The test does not wait for it.
    await world.query('update holdfast.lane set due_at = clock_timestamp() where due_at is not null')
    await world.query('update holdfast.lane_reservation set expires_at = clock_timestamp()')
    await world.query(textOf('jobs', 'maintain'), [100])
    const wrong = await wrongPlaces(world)
    if (wrong.length > 0) return wrong
    await world.run(claiming(third, 100))
    const claims = await world.query<{ fence: string; ids: string }>(
      "select fence::text, '{' || array_to_string(ids, ',') || '}' as ids from holdfast.claim",
    )
    for (const { fence, ids: claimed } of claims) {
      const fences = claimed.replace(/\d+/g, fence)
      await world.query(textOf('jobs', 'done'), [claimed, fences, null, `{${fence}}`])
    }
    const [left] = await world.query<{ ends: number; waiting: number; follow_ups: number; lanes: number }>(
      `select
         (select count(*) from holdfast.job_end, unnest(ids) where is_done)::integer as ends,
         (select count(*) from holdfast.waiting)::integer as waiting,
         (select count(*) from holdfast.follow_up)::integer as follow_ups,
         (select count(*) from holdfast.lane)::integer as lanes`,
    )
    const { ends, waiting, follow_ups, lanes } = left!
    if (ends === ids.length && waiting + follow_ups + lanes === 0) return []
    if (performance.now() > deadline) {
      return [
        `Of ${ids.length} jobs, ${ends} are done and ${waiting} wait, and ${lanes} lanes and ${follow_ups} follow-ups remain`,
      ]
    }
  }
}

/** At most one job may have its place, and the counts must match the jobs. */
async function wrongPlaces(world: World): Promise<string[]> {
  const [row] = await world.query<{ running: number; faults: number }>(
    `select
       (select count(*)::integer from holdfast.job_live) as running,
       (select count(*)::integer from holdfast.lane_faults()) as faults`,
  )
  return [
    ...(row!.running > 1 ? [`${row!.running} jobs are admitted, and there is room for one`] : []),
    ...(row!.faults > 0 ? ['The count of a lane is wrong'] : []),
  ]
}

async function checkAndDrain(world: World): Promise<string[]> {
  const wrong = await wrongPlaces(world)
  return wrong.length > 0 ? wrong : drain(world)
}

/** Admission to a lane, a budget, or a budget with groups. The links of each job are given. */
function admission(name: string, linksOf: (job: number) => object): Statement<Facts> {
  return {
    name: `${name} admission`,
    functions: ['job_run_follow_ups', 'job_admit', 'lane_enter', 'lane_fill', 'lane_admit', 'job_done'],
    tables: queueTables,
    bugs: [
      {
        name: 'follow-ups are not serialized',
        function: 'job_run_follow_ups',
        edits: [["perform pg_advisory_xact_lock(holdfast.lock_class('job follow-ups'), 0);", '']],
      },
      { name: 'a job is admitted without room', function: 'lane_room', edits: [['max - active', 'max']] },
      {
        name: 'a job that ended keeps its place',
        function: 'lane_fill',
        edits: [['active = l.active - l.gone', 'active = l.active']],
      },
    ],
    async prepare(world) {
      await register(world, [live, other, third])
      const ids = [
        ...(await enqueue(world, 1, linksOf(0))),
        ...(await enqueue(world, 1, linksOf(1))),
        ...(await enqueue(world, 1, linksOf(2))),
      ]
      await world.query(textOf('jobs', 'run_follow_ups'), ['{}', `{${ids[0]}}`, live])
      const [row] = await world.run<{ fence: string }>(claiming(live, 1))
      return { ids, fence: row!.fence }
    },
    actors: ({ ids, fence }) => [
      { name: 'A', steps: [begin, admitting(ids[1]!, live), commit] },
      { name: 'B', steps: [begin, admitting(ids[2]!, other), commit] },
      {
        name: 'worker',
        steps: [
          step('jobs', 'done', [`{${ids[0]}}`, `{${fence}}`, null, `{${fence}}`]),
          step('jobs', 'run_follow_ups', ['{}', '{}', live], 'follow-ups'),
        ],
      },
    ],
    check: checkAndDrain,
  }
}

const budget = { name: 'b', key: '7101', max: 1, weight: 1 }

export const laneAdmission = admission('lane', () => ({ lane: { name: 'l', max: 1 } }))
export const budgetAdmission = admission('budget', () => ({ budgets: [budget] }))
export const groupAdmission = admission('group', (job) => ({
  budgets: [budget],
  group: { name: `g${job}`, weight: 1 },
}))

/** Reserves room and enqueues a job, as a process does. */
const reserving = [
  step('jobs', 'reserve', [heads(1, { budgets: [budget] })]),
  begin,
  {
    ...step('jobs', 'enqueue'),
    values: (earlier: readonly Outcome[]) => [
      heads(1, { budgets: [budget] }),
      inputs(1),
      true,
      null,
      null,
      earlier[0]?.rows[0]?.number ?? null,
      false,
    ],
  },
  commit,
]

/** Two processes reserve room while the reservations expire and a job that has the room ends. */
export const reservation: Statement<Facts> = {
  name: 'reservation',
  functions: ['lane_reserve', 'job_enqueue', 'job_run_follow_ups', 'lane_fill', 'job_done'],
  tables: queueTables,
  bugs: [
    {
      name: 'reservations are not serialized',
      function: 'lane_reserve',
      edits: [["perform pg_advisory_xact_lock(holdfast.lock_class('job follow-ups'), 0);", '']],
    },
    {
      name: 'a job uses a reservation that has expired',
      function: 'job_enqueue',
      edits: [['is_reserved := found;', 'is_reserved := true;']],
    },
    {
      name: 'an expired reservation keeps its room',
      function: 'job_run_follow_ups',
      edits: [
        [
          'from expired cross join lateral unnest(expired.keys, expired.weights) as p (key, weight)',
          'from expired, unnest(null::bigint[], null::integer[]) as p (key, weight)',
        ],
      ],
    },
  ],
  async prepare(world) {
    await register(world, [live, other, third])
    const ids = await enqueue(world, 1, { budgets: [budget] })
    await world.query(textOf('jobs', 'run_follow_ups'), ['{}', `{${ids[0]}}`, live])
    const [row] = await world.run<{ fence: string }>(claiming(live, 1))
    return { ids, fence: row!.fence }
  },
  actors: ({ ids, fence }) => [
    { name: 'A', steps: reserving },
    { name: 'B', steps: reserving },
    {
      name: 'worker',
      steps: [
        step('jobs', 'done', [`{${ids[0]}}`, `{${fence}}`, null, `{${fence}}`]),
        step('jobs', 'run_follow_ups', ['{}', '{}', live], 'follow-ups'),
      ],
    },
    {
      name: 'maintenance',
      steps: [
        { name: 'time passes', text: 'update holdfast.lane_reservation set expires_at = clock_timestamp()' },
        step('jobs', 'run_follow_ups', ['{}', '{}', 0], 'return room'),
      ],
    },
  ],
  check: checkAndDrain,
}
