// Takeover, with default settings: how long the work of a worker that is killed, frozen or cut off stands still until another process
// runs it; here and with the peers.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { defineJob, Holdfast } from 'holdfast'
import { type Options, type Progress, percentile } from './measure.ts'
import { table } from './table.ts'
import { wayTo } from './takeover/cut.ts'
import { peers } from './takeover/peers.ts'
import type { Begun } from './takeover/worker.ts'

type Start = Begun & { child: ChildProcess }

const program = fileURLToPath(new URL('./takeover/worker.ts', import.meta.url))
const kills = 50
const victimsAtOnce = 10

export async function run(url: string, { progress }: Options) {
  const holdfast = await Holdfast.open({ url })
  try {
    return {
      killed: await killing(url, holdfast, progress),
      frozen: await silencing(url, holdfast, progress, 'frozen', url, (victims) => {
        for (const victim of victims) victim.kill('SIGSTOP')
      }),
      cut: await cutting(url, holdfast, progress),
      peers: await peers(progress),
    }
  } finally {
    await holdfast.close()
  }
}

async function startWorker(url: string, queues: string[], onStart: (start: Start) => void) {
  const child = fork(program, [url, ...queues])
  await once(child, 'message')
  child.on('message', (start: Begun) => onStart({ ...start, child }))
  return child
}

/** Starts of jobs, each to be waited for. */
function starts() {
  const waiting = new Map<string, (start: Start) => void>()
  const past = new Map<string, Start>()
  return {
    onStart(start: Start) {
      const key = `${start.id}/${start.attempt}`
      past.set(key, start)
      waiting.get(key)?.(start)
    },
    of(id: number, attempt: number) {
      const key = `${id}/${attempt}`
      return past.get(key) ?? new Promise<Start>((resolve) => waiting.set(key, resolve))
    },
  }
}

/** Three workers serve one queue and nothing else is to do. The one that has the job is killed, whichever it is. */
async function killing(url: string, holdfast: Holdfast, progress: Progress) {
  const hold = defineJob('hold', { queue: 'killed', run() {} })
  const { onStart, of } = starts()
  const fleet = new Set<ChildProcess>()
  const join = async () => fleet.add(await startWorker(url, ['killed'], onStart))
  await Promise.all([join(), join(), join()])
  const tookMs: number[] = []
  for (let kill = 0; kill < kills; kill++) {
    progress(`takeover: kill ${kill + 1} of ${kills}`)
    const { id } = await holdfast.jobs.enqueue(hold, null)
    const { child } = await of(id, 1)
    fleet.delete(child)
    // At any moment between two rounds of the maintenance.
    await sleep(Math.random() * 1_000)
    child.kill('SIGKILL')
    const killedAt = Date.now()
    const second = await of(id, 2)
    tookMs.push(second.at - killedAt)
    second.child.send({ finish: id })
    await holdfast.jobs.result(id)
    await join()
  }
  for (const child of fleet) child.kill('SIGKILL')
  return tookMs
}

/** The way to the server falls silent, for all workers at once. */
async function cutting(url: string, holdfast: Holdfast, progress: Progress) {
  const way = await wayTo(url)
  try {
    return await silencing(url, holdfast, progress, 'cut', way.url, () => way.cut())
  } finally {
    way.close()
  }
}

/** Workers with a queue each fall silent together; one more serves all of these queues. */
async function silencing(
  url: string,
  holdfast: Holdfast,
  progress: Progress,
  what: string,
  through: string,
  silence: (victims: ChildProcess[]) => void,
) {
  progress(`takeover: ${victimsAtOnce} workers, ${what}`)
  const queues = Array.from({ length: victimsAtOnce }, (_, at) => `${what}-${at}`)
  const { onStart, of } = starts()
  const victims = await Promise.all(queues.map((queue) => startWorker(through, [queue], onStart)))
  const jobs = await Promise.all(
    queues.map((queue) => holdfast.jobs.enqueue(defineJob('hold', { queue, run() {} }), null)),
  )
  await Promise.all(jobs.map(({ id }) => of(id, 1)))
  const other = await startWorker(url, queues, onStart)
  silence(victims)
  const silentAt = Date.now()
  const tookMs = await Promise.all(jobs.map(async ({ id }) => (await of(id, 2)).at - silentAt))
  for (const child of [...victims, other]) child.kill('SIGKILL')
  return tookMs
}

export function show({ killed, frozen, cut, peers }: Awaited<ReturnType<typeof run>>) {
  const row = (what: string, tookMs: number[], goal: string) => [
    what,
    tookMs.length,
    Math.round(percentile(tookMs, 50)),
    Math.round(percentile(tookMs, 99)),
    Math.round(Math.max(...tookMs)),
    goal,
  ]
  const seconds = (ms: number | null) => (ms === null ? 'not in 75 s' : `${(ms / 1_000).toFixed(1)} s`)
  const theirs = Object.entries(peers).map(([name, { killedMs, frozenMs, cutMs, documented }]) => [
    name,
    seconds(killedMs),
    seconds(frozenMs),
    seconds(cutMs),
    documented,
  ])
  const ours = table(
    ['Until the job runs elsewhere, default settings', 'workers', 'p50 ms', 'p99 ms', 'longest', 'goal'],
    [
      row('killed (SIGKILL)', killed, 'p50 ≤ 500, p99 ≤ 1,000'),
      row('frozen (SIGSTOP), expiry 10 s', frozen, '≤ 10,000'),
      row('cut off, expiry 10 s', cut, '≤ 10,000'),
    ],
  )
  return `${ours}\n\n${table(['The peers, one each, at their defaults', 'killed', 'frozen', 'cut off', 'by their documents'], theirs)}`
}
