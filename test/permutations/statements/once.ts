import { begin, type Report, type Statement } from '../explore.js'
import { step, textOf } from '../sql.js'
import { dead, live, type Outcome, type Step, type World } from '../world.js'

const [namespace, key, lockKey] = ['default', 'delivery', '7004']
const retainMs = '60000'

const claiming = (token: string, session: number, isOwn: boolean) =>
  step('once', 'claim', [namespace, key, lockKey, token, session, null, retainMs, isOwn, `i${session}`])

const lastOf = (earlier: readonly Outcome[], name: string) => earlier.findLast(({ step }) => step === name)?.rows[0]

/** Records the answer of a run that has claimed the key. `effect` inserts the effect of the run in the same transaction. */
const finishing = (
  token: string,
  effect: 'always' | 'if recorded',
  hasClaimed: (earlier: readonly Outcome[]) => boolean,
): Step => ({
  name: 'finish',
  text:
    effect === 'always'
      ? `with effect as (insert into public.effect select $9 where $10) ${textOf('once', 'finish')}`
      : `with finished as materialized (${textOf('once', 'finish')}),
         effect as (insert into public.effect select $9 from finished where $10 and result = 'recorded')
         select result from finished`,
  values: (earlier) => {
    const isOurs = hasClaimed(earlier)
    return [namespace, key, isOurs ? token : 'none', 'done', '1', null, retainMs, null, token, isOurs]
  },
})

/** A handler's transaction is rolled back if another run has taken the key over. */
const ending: Step = {
  name: 'end',
  text: (earlier) => (lastOf(earlier, 'finish')?.result === 'recorded' ? 'commit' : 'rollback'),
}

const claimed = (earlier: readonly Outcome[]) => lastOf(earlier, 'claim')?.state === 'claimed'

/** The times of a run that has claimed the key, or nothing. */
function runOf(report: Report | undefined): { from: number; to: number } | undefined {
  const outcomes = report?.outcomes.slice(report.knownFrom) ?? []
  const claim = outcomes.find(({ step, rows }) => step === 'claim' && rows[0]?.state === 'claimed')
  return claim && { from: claim.endedAt, to: outcomes.at(-1)!.startedAt }
}

async function wrongRows(world: World): Promise<string[]> {
  const effects = await world.query<{ token: string }>('select token from public.effect')
  const [row] = await world.query<{ state: string; token: string }>('select state, token from holdfast.delivery')
  const tokens = effects.map(({ token }) => token)
  if (tokens.length > 1) return [`The delivery had the effects of ${tokens.join(' and ')}`]
  if (row?.state === 'done' && row.token !== tokens[0])
    return [`The answer is of ${row.token}, and the effect of ${tokens[0]}`]
  return row?.state !== 'done' && tokens.length > 0 ? [`The effect of ${tokens[0]} has no answer`] : []
}

export const onceClaim: Statement<null> = {
  name: 'once claim',
  functions: ['claim_delivery', 'claim_deliveries', 'finish_delivery'],
  tables: ['holdfast.delivery', 'public.effect'],
  bugs: [
    {
      name: 'a run in flight counts as dead',
      function: 'claim_deliveries',
      edits: [
        ['holdfast.is_present(delivery.session)', 'false'],
        ['not holdfast.is_present(held.session)', 'true'],
      ],
    },
    {
      name: 'an answer is recorded without a check of the run',
      function: 'finish_delivery',
      edits: [[/and token = run_token\s+and state = 'in-flight'/, '']],
    },
  ],
  async prepare(world) {
    await world.query('create table if not exists public.effect (token text)')
    // A run whose process died before it had answered.
    await world.query(textOf('once', 'claim'), [namespace, key, lockKey, 'dead', dead, null, retainMs, true, 'idead'])
    return null
  },
  actors: () => [
    // A run in the caller's transaction, which other sessions recognise by the transaction's lock.
    {
      name: 'transaction',
      isTransaction: true,
      steps: [begin, claiming('transaction', 0, false), finishing('transaction', 'always', claimed), ending],
    },
    // A run of an instance that is present. If the reply to a claim is lost, the key is freed.
    {
      name: 'run',
      steps: [claiming('run', live, true), finishing('run', 'if recorded', claimed)],
      recovery: [
        step('once', 'release', [namespace, JSON.stringify([{ key, token: 'run' }])]),
        claiming('run', live, true),
        finishing('run', 'if recorded', claimed),
      ],
    },
    // The commit of a dead process arrives late. Nothing repeats it.
    {
      name: 'dead run',
      steps: [begin, finishing('dead', 'always', () => true), ending],
      recovery: [],
      isTransaction: true,
    },
  ],
  async check(world, _, reports) {
    const wrong = await wrongRows(world)
    const [one, other] = [runOf(reports.get('transaction')), runOf(reports.get('run'))]
    if (one && other && one.from < other.to && other.from < one.to)
      wrong.push('Two runs of one delivery ran at the same time')
    return wrong
  },
}
