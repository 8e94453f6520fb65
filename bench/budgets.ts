// node --import ./scripts/typescript.js bench/budgets.ts [--jobs 20000] [--backlog 1000000] [--rounds 3] [--part throughput|fairness]
//
// Measures jobs with budgets and groups, with eight workers in two processes.
// throughput: jobs/s while one process enqueues all jobs and the workers run them. The budget has more room than the workers have slots, so that the
// difference is the cost of the budget.
// fairness: time from the enqueueing to the start of a new group's first job, on an idle queue and behind a backlog of another group.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { type BudgetUse, defineBudget, defineJob, Holdfast } from 'holdfast'
import { benchDatabase, circumstances, query } from './server.ts'

type Options = { budgets?: readonly BudgetUse[]; group?: string }

const program = fileURLToPath(new URL('./budgets/member.ts', import.meta.url))
const job = defineJob<{ isMarked?: boolean }>('work')
const budget = defineBudget('provider', { max: 100_000 })

const { values } = parseArgs({
  options: {
    jobs: { type: 'string', default: '20000' },
    backlog: { type: 'string', default: '1000000' },
    rounds: { type: 'string', default: '3' },
    part: { type: 'string', default: '' },
  },
})
const [jobs, backlog, rounds] = [Number(values.jobs), Number(values.backlog), Number(values.rounds)]
const median = (list: number[]) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)]

/** Starts two processes with four workers each. */
async function startMembers(url: string, handlerMs: number, concurrency: number) {
  const children: ChildProcess[] = []
  const counts = [0, 0]
  let startedAt: number | undefined
  for (const at of counts.keys()) {
    const child = fork(program, [url, String(handlerMs), String(concurrency)])
    await once(child, 'message')
    child.on('message', (report: { count: number; startedAt?: number }) => {
      counts[at] = report.count
      startedAt = report.startedAt ?? startedAt
    })
    children.push(child)
  }
  return {
    begin: () => children.forEach((child) => void child.send('begin')),
    done: () => counts[0]! + counts[1]!,
    /** Waits until a marked job has started. Returns the time. */
    async started() {
      while (startedAt === undefined) await sleep(2)
      const at = startedAt
      startedAt = undefined
      return at
    },
    async stop() {
      for (const child of children) child.kill('SIGKILL')
      await Promise.all(children.map((child) => once(child, 'exit')))
    },
  }
}

async function throughput(handlerMs: number, count: number, options: Options): Promise<number> {
  const database = await benchDatabase({ settings: { max_wal_size: '4GB' } })
  const holdfast = await Holdfast.open({ url: database.url })
  const members = await startMembers(database.url, handlerMs, 25)
  try {
    const from = performance.now()
    members.begin()
    for (let at = 0; at < count; at += 1_000) {
      await holdfast.jobs.enqueueMany(job, new Array(Math.min(1_000, count - at)).fill({}), options)
    }
    while (members.done() < count) await sleep(5)
    return (1_000 * count) / (performance.now() - from)
  } finally {
    await members.stop()
    await holdfast.close()
    await database.close()
  }
}

/** Returns the times from the enqueueing of a new group's first job to its start, in ms, on an idle queue and behind a backlog. */
async function fairness(handlerMs: number) {
  const database = await benchDatabase({ settings: { max_wal_size: '4GB' } })
  const { url } = database
  const holdfast = await Holdfast.open({ url })
  const members = await startMembers(url, handlerMs, 10)
  const first = async (group: string) => {
    const from = Date.now()
    await holdfast.jobs.enqueue(job, { isMarked: true }, { group })
    return (await members.started()) - from
  }
  try {
    await holdfast.jobs.enqueueMany(job, new Array(100).fill({}), { group: 'big' })
    for (;;) {
      const [{ waiting }] = await query(
        url,
        "select count(*)::int as waiting from holdfast.waiting where stage = 'budget'",
      )
      if (waiting === 90) break
      await sleep(20)
    }
    // Copies of the last job, at the positions where they would be if they had been enqueued.
    await query(
      url,
      `insert into holdfast.waiting (id, queue, priority, kind, payload, max_crashes, run_at, links, stage, lane, rank, seq)
       select nextval('holdfast.job_number'), queue, priority, kind, payload, max_crashes, run_at, links, stage, lane, rank, seq + 1000 * n
       from (select * from holdfast.waiting order by seq desc limit 1) as w, generate_series(1, ${backlog}) as n`,
    )
    await query(url, 'vacuum analyze holdfast.waiting')
    members.begin()
    while (members.done() < 300) await sleep(5)
    const busy: number[] = []
    const before = performance.now()
    const countBefore = members.done()
    for (let at = 0; at < 40; at++) {
      busy.push(await first(`new:${at}`))
      await sleep(50)
    }
    const rate = (1_000 * (members.done() - countBefore)) / (performance.now() - before)
    await query(url, "delete from holdfast.waiting where stage = 'budget'")
    const all = Date.now()
    for (;;) {
      const [{ left }] = await query(url, 'select count(*)::int as left from holdfast.job_live')
      if (left === 0) break
      if (Date.now() - all > 20_000) throw new Error(`${left} jobs are left`)
      await sleep(50)
    }
    const idle: number[] = []
    for (let at = 0; at < 40; at++) {
      idle.push(await first(`idle:${at}`))
      await sleep(50)
    }
    const sorted = busy.toSorted((a, b) => a - b)
    return {
      'handler ms': handlerMs,
      'idle p50 ms': median(idle),
      'behind the backlog p50 ms': median(busy),
      'p95 ms': sorted[37],
      'max ms': sorted.at(-1),
      'jobs/s of the backlog': Math.round(rate),
    }
  } finally {
    await members.stop()
    await holdfast.close()
    await database.close()
  }
}

if (values.part !== 'fairness') {
  const rows = []
  for (const [handlerMs, count] of [
    [10, jobs],
    [0, 5 * jobs],
  ] as const) {
    const cases: Record<string, Options> = { plain: {}, budget: { budgets: [budget] }, group: { group: 'a' } }
    const rates: Record<string, number[]> = { plain: [], budget: [], group: [] }
    for (let round = 0; round < rounds; round++) {
      for (const [name, options] of Object.entries(cases)) {
        rates[name]!.push(await throughput(handlerMs, count, options))
        console.error(`${handlerMs} ms, ${name}: ${Math.round(rates[name]!.at(-1)!)} jobs/s`)
      }
    }
    const plain = median(rates.plain!)!
    rows.push({
      'handler ms': handlerMs,
      plain: Math.round(plain),
      budget: Math.round(median(rates.budget!)!),
      'budget/plain': (median(rates.budget!)! / plain).toFixed(2),
      group: Math.round(median(rates.group!)!),
      'group/plain': (median(rates.group!)! / plain).toFixed(2),
    })
  }
  console.table(rows)
}
if (values.part !== 'throughput') {
  const rows = []
  for (const handlerMs of [0, 10]) rows.push(await fairness(handlerMs))
  console.table(rows)
}
const probe = await benchDatabase()
console.log(await circumstances(probe.url))
await probe.close()
