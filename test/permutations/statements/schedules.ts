import { begin, commit, type Report, type Statement } from '../explore.js'
import { step, textOf } from '../sql.js'
import { live, other, type World } from '../world.js'

const key = '7005'
const rule = 'every hour'
const hourMs = 3_600_000

interface Facts {
  readonly due: Date
  readonly next: Date
  readonly earlier: Date
  readonly fence: string
}

const claiming = ({ due, next }: Facts, session: number, name: string) =>
  step('schedules', 'claim', [
    session,
    name,
    JSON.stringify([
      { id: key, rule, ticks: [due, next, new Date(next.getTime() + hourMs)], is_over: false, begins: true },
    ]),
  ])

/** Runs that a caller has started: the tick, and the fence. */
function startsOf(report: Report): { at: number; fence: number }[] {
  return report.outcomes.flatMap(({ step, rows, error }) => {
    if (step !== 'claim' || error) return []
    const { started } = JSON.parse(String(rows[0]!.answer)) as { started: [string, number, boolean, number][] }
    return started.map(([, at, , fence]) => ({ at, fence }))
  })
}

async function wrongTicks(world: World, { due, next, earlier }: Facts): Promise<string[]> {
  const [row] = await world.query<{
    ticks: number
    gaps: number
    attempts: number | null
    next_at: Date
    running: number
  }>(
    `select
       (select count(*)::integer from holdfast.tick where at = $1) as ticks,
       (select coalesce(sum(ticks), 0)::integer from holdfast.gap where first_at <= $1 and last_at >= $1) as gaps,
       (select max(attempt) from holdfast.tick where at = $1) as attempts,
       (select count(*)::integer from holdfast.tick where state = 'running' and at in ($1, $2)) as running,
       (select next_at from holdfast.schedule where key = $3) as next_at`,
    [due, earlier, key],
  )
  const { ticks, gaps, attempts, next_at, running } = row!
  const isSettled = next_at.getTime() === next.getTime()
  return [
    ...(isSettled !== ticks + gaps > 0
      ? [`The next tick is ${next_at.toISOString()} with ${ticks} ticks and ${gaps} gaps`]
      : []),
    ...(ticks + gaps > 1 ? [`The tick has ${ticks} rows and ${gaps} gaps`] : []),
    ...((attempts ?? 0) > 1 ? [`The tick was started ${attempts} times`] : []),
    ...(running > 1 ? ['Two ticks of a schedule that skips overlaps run at the same time'] : []),
  ]
}

export const tick: Statement<Facts> = {
  name: 'tick',
  functions: [
    'schedule_claim',
    'schedule_settle',
    'schedule_make_room',
    'schedule_start_runs',
    'schedule_record_ends',
    'schedule_record_gap',
  ],
  tables: ['holdfast.schedule', 'holdfast.schedule_member', 'holdfast.schedule_rule', 'holdfast.tick', 'holdfast.gap'],
  bugs: [
    {
      name: 'a claim does not lock the schedule',
      function: 'schedule_claim',
      edits: [['for update of s skip locked', '']],
    },
    {
      name: 'a run starts although another run has started',
      function: 'schedule_start_runs',
      edits: [[/or not exists \(select from holdfast\.tick r where[^\n]+\)/, 'or true']],
    },
    {
      name: 'a claim does not compare the next tick',
      function: 'schedule_claim',
      edits: [[/and s\.next_at = coalesce\([^\n]+/, '']],
    },
  ],
  async prepare(world) {
    const due = new Date(Date.now() - 1_000)
    const [next, earlier] = [new Date(due.getTime() + hourMs), new Date(due.getTime() - hourMs)]
    for (const [session, name] of [
      [live, 'A'],
      [other, 'B'],
    ] as const) {
      await world.query(textOf('schedules', 'declare'), [
        session,
        name,
        JSON.stringify([
          {
            key,
            namespace: 'default',
            name: 'hourly',
            rule,
            overlap: 'queue',
            missed: 'latest',
            catch_up: 0,
            reruns: false,
            first_ticks: [next],
            is_over: false,
          },
        ]),
      ])
    }
    // The run of the tick before is not over yet.
    const [row] = await world.query<{ fence: string }>(
      `with earlier as (
         insert into holdfast.tick (schedule, at, state, session, instance, fence, attempt, started_at)
         values ($1, $2, 'running', $3, 'A', nextval('holdfast.fence'), 1, $2)
         returning fence::text
       ),
       due as (update holdfast.schedule set next_at = $4, settled_at = $2 where key = $1)
       select fence from earlier`,
      [key, earlier, live, due],
    )
    return { due, next, earlier, fence: row!.fence }
  },
  actors: (facts) => [
    { name: 'A', steps: [begin, claiming(facts, live, 'A'), commit] },
    { name: 'B', steps: [begin, claiming(facts, other, 'B'), commit] },
    {
      name: 'earlier run',
      steps: [
        begin,
        step('schedules', 'end', [
          JSON.stringify([
            { id: key, at: facts.earlier, extra: false, fence: facts.fence, state: 'done', error: null },
          ]),
        ]),
        commit,
      ],
    },
  ],
  async check(world, facts, reports) {
    const wrong = await wrongTicks(world, facts)
    const starts = [...reports.values()].flatMap((report) => startsOf(report))
    const fences = new Set(starts.map(({ fence }) => fence))
    const isInterrupted = [...reports.values()].some(({ knownFrom }) => knownFrom > 0)
    if (!isInterrupted && fences.size > 1) wrong.push(`The tick was started with the fences ${[...fences].join(', ')}`)
    return wrong
  },
}
