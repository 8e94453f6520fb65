import { begin, commit, isCommitted, type Report, resultOf, type Statement } from '../explore.js'
import { step, textOf } from '../sql.js'
import { live, other, third, type World } from '../world.js'

const key = '7003'
const max = 2
const instance = 'i'

const decide = (kind: string, token: number, session: number, weight = 1, as = kind) =>
  step(
    'limits',
    'decide_permit',
    ['holdfast', instance, 'default', 'entity', kind, key, token, session, weight, max],
    as,
  )

async function counts(world: World) {
  const [row] = await world.query<{
    used: number
    queued: number
    in_use: number
    waiting: number
    granted: string[]
    fences: string[]
  }>(
    `select
       coalesce(sum(weight) filter (where fence is not null), 0)::integer as used,
       (count(*) filter (where fence is null))::integer as queued,
       (select in_use::integer from holdfast.limit_state where key = $1) as in_use,
       (select waiting from holdfast.limit_state where key = $1) as waiting,
       coalesce(array_agg(token::text) filter (where fence > 0), '{}') as granted
     from holdfast.permit
     where key = $1`,
    [key],
  )
  return row!
}

/** Tokens that callers were granted and have not released. */
function heldTokens(reports: ReadonlyMap<string, Report>): string[] {
  const held: string[] = []
  for (const { actor, token } of [
    { actor: 'try', token: '2' },
    { actor: 'wait', token: '3' },
  ]) {
    const report = reports.get(actor)
    if (report && isCommitted(report) && resultOf(report, actor)?.verdict === 'granted') held.push(token)
  }
  return held
}

export const permit: Statement<null> = {
  name: 'permit',
  functions: ['limit_decide_one', 'limit_decide', 'limit_grant_next', 'limit_remove_dead'],
  tables: ['holdfast.permit', 'holdfast.limit_state'],
  bugs: [
    {
      name: 'a permit is granted without a lock on the entity',
      function: 'limit_decide_one',
      edits: [[/(limit_decide_one\.weight, limit_decide_one\.max\)\s+)for update skip locked/, '$1']],
    },
    {
      name: 'waiting requests are granted without room',
      function: 'limit_grant_next',
      edits: [['exit when in_use + head.weight > head.max;', '']],
    },
  ],
  async prepare(world) {
    await world.run(decide('try', 1, live))
    return null
  },
  actors: () => [
    { name: 'try', steps: [begin, decide('try', 2, live), commit], recovery: [decide('cancel', 2, live)] },
    { name: 'wait', steps: [begin, decide('wait', 3, other, 2), commit], recovery: [decide('cancel', 3, other, 2)] },
    { name: 'release', steps: [begin, decide('release', 1, live), commit] },
  ],
  async check(world, _, reports) {
    const wrong: string[] = []
    const before = await counts(world)
    if (before.used > max) wrong.push(`Permits of the weight ${before.used} are granted, and the limit is ${max}`)
    for (const token of heldTokens(reports)) {
      if (!before.granted.includes(token)) wrong.push(`The permit ${token} is granted, but it is not stored`)
    }
    if (before.in_use !== before.used || before.waiting !== before.queued) {
      wrong.push(
        `The counts are ${before.in_use} and ${before.waiting}, but ${before.used} are used and ${before.queued} wait`,
      )
    }
    // A poll of the waiting request must find the room that is left.
    await world.query(textOf('limits', 'check_waits'), [
      'holdfast',
      JSON.stringify([{ ordinal: 0, key: Number(key), token: 3 }]),
    ])
    const after = await counts(world)
    if (after.used > max) wrong.push(`A poll granted permits of the weight ${after.used}, and the limit is ${max}`)
    if (after.queued > 0 && after.used === 0) wrong.push('A request waits although nothing is in use')
    const [row] = await world.run<{ verdict: string }>(decide('try', 4, third, max - after.used))
    if (after.used < max && after.queued === 0 && row!.verdict !== 'granted')
      wrong.push(`The free rest is ${row!.verdict}`)
    return wrong
  },
}
