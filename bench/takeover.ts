// Measures takeover with default settings: the time from the moment a worker is killed, frozen or cut off until another
// process runs its job.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { defineJob, Holdfast } from 'holdfast'
import { defaultConcurrency } from './jobs/contestants.ts'
import { type Options, type Progress, percentile } from './measure.ts'
import { table } from './table.ts'
import { routeTo } from './takeover/cut.ts'
import { peers, timeoutMs } from './takeover/peers.ts'
import type { JobStart } from './takeover/worker.ts'

type Start = JobStart & { child: ChildProcess }

const program = fileURLToPath(new URL('./takeover/worker.ts', import.meta.url))
const victimCount = 10

/** Determines when a worker is killed. */
interface Scenario {
  what: string
  /** Time from the start of the job to the kill. */
  delayMs(): number
  /** Whether each kill has a new fleet. The killed worker runs the fleet's first job. */
  isFleetNew?: boolean
}

const scenarios: Scenario[] = [
  // Maintenance runs twice per second. The kill can happen at any moment between two runs.
  { what: 'killed while it runs a job', delayMs: () => Math.random() * 1_000 },
  { what: 'killed right after the claim', delayMs: () => 0 },
  { what: 'killed right after its own start', delayMs: () => 0, isFleetNew: true },
]

export async function run(url: string, { kills, progress }: Options) {
  const holdfast = await Holdfast.open({ url, log: false })
  try {
    const killed: { what: string; tookMs: number[] }[] = []
    for (const scenario of scenarios) {
      killed.push({ what: scenario.what, tookMs: await killing(url, holdfast, scenario, kills, progress) })
    }
    return {
      killed,
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
  child.on('message', (start: JobStart) => onStart({ ...start, child }))
  return child
}

/** Collects the starts of jobs. `of` waits for one start. */
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

/** Three workers serve one queue, which contains one job at a time. The worker that runs the job is killed. */
async function killing(url: string, holdfast: Holdfast, scenario: Scenario, kills: number, progress: Progress) {
  const { what, delayMs, isFleetNew = false } = scenario
  const hold = defineJob('hold', { queue: 'killed', run() {} })
  const { onStart, of } = starts()
  const fleet = new Set<ChildProcess>()
  const join = async () => fleet.add(await startWorker(url, ['killed'], onStart))
  const tookMs: number[] = []
  for (let kill = 0; kill < kills; kill++) {
    progress(`takeover: ${what}, kill ${kill + 1} of ${kills}`)
    if (isFleetNew) await closeAll(fleet)
    await Promise.all(Array.from({ length: 3 - fleet.size }, join))
    const { id } = await holdfast.jobs.enqueue(hold, null)
    const { child } = await of(id, 1)
    fleet.delete(child)
    await sleep(delayMs())
    child.kill('SIGKILL')
    const killedAt = Date.now()
    const second = await of(id, 2)
    tookMs.push(second.at - killedAt)
    second.child.send({ finish: id })
    await holdfast.jobs.result(id)
  }
  await closeAll(fleet)
  return tookMs
}

/** Closes the workers as a deployment does. */
async function closeAll(fleet: Set<ChildProcess>) {
  const exits = [...fleet].map((child) => once(child, 'exit'))
  for (const child of fleet) child.disconnect()
  fleet.clear()
  await Promise.all(exits)
}

/** Cuts the network between the server and all victims at the same time. */
async function cutting(url: string, holdfast: Holdfast, progress: Progress) {
  const route = await routeTo(url)
  try {
    return await silencing(url, holdfast, progress, 'cut', route.url, () => route.cut())
  } finally {
    route.close()
  }
}

/** Starts victims that serve one queue each, and silences them at the same time. Another worker serves all of these queues. */
async function silencing(
  url: string,
  holdfast: Holdfast,
  progress: Progress,
  what: string,
  through: string,
  silence: (victims: ChildProcess[]) => void,
) {
  progress(`takeover: ${victimCount} workers ${what}`)
  const queues = Array.from({ length: victimCount }, (_, at) => `${what}-${at}`)
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
    ['Until another worker runs the job', 'workers', 'p50 ms', 'p99 ms', 'longest', 'goal'],
    [
      ...killed.map(({ what, tookMs }) => row(what, tookMs, 'p50 ≤ 500, p99 ≤ 1,000')),
      row('frozen (SIGSTOP), expiry 10 s', frozen, '≤ 10,000'),
      row('cut off, expiry 10 s', cut, '≤ 10,000'),
    ],
  )
  const best = (how: 'killedMs' | 'frozenMs' | 'cutMs') =>
    Math.min(...Object.values(peers).map((one) => one[how] ?? timeoutMs))
  const compared = (what: string, tookMs: number[], how: Parameters<typeof best>[0], goal: string) => [
    what,
    Math.round(best(how) / percentile(tookMs, 50)),
    goal,
  ]
  return [
    `Default settings: ${defaultConcurrency}`,
    ours,
    table(['The peers, one worker each', 'killed', 'frozen', 'cut off', 'documented'], theirs),
    table(
      [`p50 of the best peer : p50 of holdfast (peers without takeover: ${timeoutMs / 1_000} s)`, 'ratio', 'goal'],
      [
        ...killed.map(({ what, tookMs }) => compared(what, tookMs, 'killedMs', '≥ 10')),
        compared('frozen', frozen, 'frozenMs', '≥ 10'),
        compared('cut off', cut, 'cutMs', '≥ 10'),
      ],
    ),
  ].join('\n\n')
}
