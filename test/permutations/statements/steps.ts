import { begin, commit, isCommitted, resultOf, type Statement } from '../explore.js'
import { step, textOf } from '../sql.js'
import { live, type Outcome, third, type World } from '../world.js'
import { claiming, claimRest, type Facts, prepareClaimed, queueTables, returnStep } from './jobs.js'

const tables = [...queueTables, 'holdfast.job_step', 'holdfast.job_event']

const waiting = ({ ids, fence }: Facts) =>
  step('jobs', 'wait', [ids[0], fence, 'approval', 'event', 1, 'approved', 3_600_000, null])

const lastRow = (earlier: readonly Outcome[], name: string) => earlier.findLast(({ step }) => step === name)?.rows[0]

/** Sends an event. A key makes sure that a repeated event counts once. */
const sending = ({ ids }: Facts) => step('jobs', 'send', [ids[0], 'approved', '{"by":"ada"}', 'first'])

/** Returns what the next attempt of the job receives when it waits for the event. */
async function nextWait(world: World, { ids }: Facts): Promise<string> {
  const [claim] = await world.query<{ fence: string }>(
    'select fence::text from holdfast.claim where $1::bigint = any(ids) order by fence desc limit 1',
    [ids[0]],
  )
  const [row] = await world.query<{ state: string }>(textOf('jobs', 'wait'), [
    ids[0],
    claim?.fence ?? 0,
    'approval',
    'event',
    2,
    'approved',
    3_600_000,
    null,
  ])
  return row!.state
}

export const event: Statement<Facts> = {
  name: 'event',
  tables,
  functions: ['job_wait', 'job_owns', 'job_suspend', 'job_end', 'job_send', 'job_make_ready'],
  bugs: [
    {
      name: 'an attempt is suspended without a lock on the events',
      function: 'job_suspend',
      edits: [["perform pg_advisory_xact_lock(holdfast.lock_class('job events'), job_id::bit(32)::integer);", '']],
    },
    {
      name: 'an event is sent without a lock on the events',
      function: 'job_send',
      edits: [["perform pg_advisory_xact_lock(holdfast.lock_class('job events'), job_id::bit(32)::integer);", '']],
    },
  ],
  prepare: (world) => prepareClaimed(world, live),
  actors: (facts) => [
    {
      name: 'worker',
      steps: [
        waiting(facts),
        {
          name: 'suspend',
          // A handler that has its event continues.
          text: `select case when $4 then (select recorded from (${textOf('jobs', 'suspend')}) as suspended) end as recorded`,
          values: (earlier) => [facts.ids[0], facts.fence, 'approval', lastRow(earlier, 'wait')?.state === 'open'],
        },
      ],
    },
    { name: 'sender', steps: [begin, sending(facts), commit] },
    { name: 'second sender', steps: [begin, sending(facts), commit] },
  ],
  async check(world, facts, reports) {
    const events = await world.query<{ step: string | null }>('select step from holdfast.job_event')
    if (events.length > 1) return [`The event is stored ${events.length} times`]
    const senders = ['sender', 'second sender'].flatMap((name) => reports.get(name) ?? [])
    if (senders.some(isCommitted) && events.length === 0) return ['An event was sent, but it is not stored']
    const [row] = await world.query<{ state: string }>('select state from holdfast.job_find(array[$1::bigint])', [
      facts.ids[0],
    ])
    if (row?.state === 'waiting') return events.length > 0 ? ['The job waits for an event that has arrived'] : []
    if (row?.state === 'ready' && !(await claimRest(world)).includes(facts.ids[0]!))
      return ['The resumed job is not claimed']
    const state = await nextWait(world, facts)
    return state === (events.length > 0 ? 'ended' : 'open')
      ? []
      : [`The next wait is ${state}, with ${events.length} events`]
  },
}

export const recordedStep: Statement<Facts> = {
  name: 'step',
  tables,
  functions: ['job_record_step', 'job_owns', 'job_end', 'job_note_ends', 'job_claim'],
  bugs: [
    {
      name: 'a step is recorded without a lock on the claim',
      function: 'job_owns',
      edits: [['job_id = any(claim.ids) for key share', 'job_id = any(claim.ids)']],
    },
    {
      name: 'a step is recorded after the end of its attempt',
      function: 'job_owns',
      edits: [['return found and not exists', 'return found or not exists']],
    },
  ],
  prepare: (world) => prepareClaimed(world, live),
  actors: (facts) => [
    {
      name: 'attempt',
      steps: [
        begin,
        step('jobs', 'record_step', [facts.ids[0], facts.fence, 'charge', 'step', 1, 5, '"paid"'], 'record'),
        commit,
      ],
    },
    { name: 'end', steps: [begin, returnStep(facts), commit] },
    { name: 'next attempt', steps: [claiming(third, 5), step('jobs', 'steps', [facts.ids[0]], 'read')] },
  ],
  async check(_, facts, reports) {
    const [attempt, next] = [reports.get('attempt'), reports.get('next attempt')]
    const isRecorded = resultOf(attempt, 'record')?.recorded === true
    const known = next?.outcomes.slice(next.knownFrom) ?? []
    const hasJob = known.some(
      ({ step, rows: [row] }) => step === 'claim' && String(row?.jobs ?? '').includes(`[${facts.ids[0]},`),
    )
    const steps = known.find(({ step }) => step === 'read')?.rows ?? []
    return hasJob && isRecorded && steps.length === 0
      ? ['The next attempt does not know a step that the attempt before has recorded']
      : []
  },
}
