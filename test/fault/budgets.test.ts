import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { until } from '../setup/facts.js'
import { runsAll } from '../setup/variants.js'
import { Child } from './children.js'
import { expiryMs, openDatabase } from './fixture.js'

// Eight processes enqueue and run jobs that share one budget, and one of them is killed each second. A job keeps its room from its first start to the end
// of its last run, so that the sum of the weights of these jobs never exceeds the budget.

const [processes, kills, max, perSecond] = [8, 20, 20, 100]
const [windowSeconds, slackSeconds] = [5, 1]

test.skipIf(!runsAll)(
  'a budget and its rate are never exceeded, and all its jobs run, while processes are killed',
  { timeout: 180_000 },
  async () => {
    const { url, witness } = await openDatabase()
    await witness.query(
      `create table enqueued (id bigint primary key);
       create table run (id bigint not null, weight integer not null, started_at timestamptz default clock_timestamp(), ended_at timestamptz)`,
    )
    const start = () => new Child<string>('./budgets-worker.ts', { url, expiryMs, max, perSecond })
    const members = Array.from({ length: processes }, start)
    await Promise.all(members.map((member) => member.first('it is open')))
    for (let at = 0; at < kills; at++) {
      await sleep(1_000)
      const dead = members.shift()!
      dead.kill()
      members.push(start())
    }
    await Promise.all(members.map((member) => member.first('it is open')))
    for (const member of members) member.send('stop')
    const count = async (text: string) => Number((await witness.query<{ count: string }>(text))[0]!.count)
    const left = `select count(*) from enqueued where not exists (select from run where run.id = enqueued.id and ended_at is not null)`
    await until('all jobs have run', async () => (await count(left)) === 0, 60_000)
    await until(
      'no room is in use',
      async () =>
        (await count('select count(*) from holdfast.lane where active > 0')) +
          (await count('select count(*) from holdfast.lane_reservation')) ===
        0,
      20_000,
    )
    expect(await witness.query('select * from holdfast.lane_faults()')).toEqual([])
    const jobs = await count('select count(distinct id) from run')
    const repeated = await count('select count(*) - count(distinct id) as count from run')
    const [used] = await witness.query<{ weights: number }>(
      `with held as (
         select id, min(weight) as weight, min(started_at) as started_at, max(ended_at) as ended_at from run group by id
       )
       select max(weights)::integer as weights
       from (
         select sum(by) over (order by at, by) as weights
         from (select started_at as at, weight as by from held union all select ended_at, -weight from held) as changes
       ) as sums`,
    )
    // A job is admitted when it enters the table, at most a moment after its room was reserved.
    const [rate] = await witness.query<{ weights: number }>(
      `with admitted as (
         select run.id, min(weight) as weight, min(entered_at) as at from run join holdfast.job using (id) group by run.id
       )
       select max(weights)::integer as weights
       from (
         select sum(weight) over (order by at range between current row and interval '${windowSeconds} s' following) as weights from admitted
       ) as windows`,
    )
    console.log(
      `${jobs} jobs, ${repeated} runs after kills: at most ${used!.weights} of ${max} in use, ${rate!.weights} in ${windowSeconds} s`,
    )
    expect(used!.weights).toBeLessThanOrEqual(max)
    expect(used!.weights).toBeGreaterThan(max / 2)
    expect(rate!.weights).toBeLessThanOrEqual(max + perSecond * (windowSeconds + slackSeconds))
  },
)
