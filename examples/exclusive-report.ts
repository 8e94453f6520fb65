// Runs a scheduled report in several processes without a central scheduler. All processes are triggered at the same time, and exactly one runs the
// report. The first part uses leases. The minimum hold keeps the name leased after a short run, so that no other process runs the report for the same
// trigger. A random delay before the acquire distributes the work. A process that has lost its lease stops immediately. The last part uses a schedule,
// which records its ticks. A schedule needs no minimum hold and no synchronized clocks.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { type Duration, Holdfast, LeaseLostError } from 'holdfast'
import { withDatabase } from './database.ts'

const [url] = process.argv.slice(2)
if (url) await work(url)
else await withDatabase(manage)

interface Trigger {
  name: string
  hold: Duration
  spread?: Duration
}

/** Message to a worker: the name of a task and its arguments. */
type Task =
  | ({ task: 'trigger' } & Trigger)
  | { task: 'inParts'; name: string; busyMs: number }
  | { task: 'schedule'; name: string; ticks: number }
  | { task: 'takeOver'; name: string }

async function work(url: string) {
  // Leases need no session, so they also work through a pooler in transaction mode.
  const holdfast = await Holdfast.open({ url, anchor: 'none' })
  const tasks: { [Name in Task['task']]: (given: Extract<Task, { task: Name }>) => Promise<unknown> } = {
    /** Runs on every machine when its cron triggers. */
    async trigger({ name, spread, hold: minHold }) {
      const lease = await holdfast.leases.tryAcquire(name, { ttl: '10s', minHold, spread })
      if (lease === null) return 'left the report to another process'
      await lease.release()
      return 'ran it'
    },

    /** Runs a report in two parts. The first part blocks the event loop until the lease has expired. */
    async inParts({ name, busyMs }) {
      const lease = await holdfast.leases.acquire(name, { ttl: '1s' })
      process.send?.({ started: lease.fence })
      try {
        for (const part of ['first', 'second']) {
          await lease.extend()
          if (part === 'first') stayBusy(busyMs)
        }
        return 'done'
      } catch (error) {
        if (!(error instanceof LeaseLostError)) throw error
        return error.code
      }
    },

    /** Adds the schedule, and waits until `ticks` ticks have run in the fleet. Returns the ticks that ran in this process. */
    async schedule({ name, ticks }) {
      const ran: number[] = []
      // In production, the rule is for example { cron: '0 3 * * *' }.
      holdfast.schedules.add(name, { every: '1s', spread: '100ms' }, ({ tick }) => ran.push(tick.getTime()))
      for (;;) {
        const runs = await holdfast.schedules.runs(name)
        if (runs.filter((run) => run.kind === 'run' && run.state === 'done').length >= ticks) return ran
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
    },

    async takeOver({ name }) {
      return holdfast.leases.with(name, { ttl: '10s' }, ({ fence }) => fence)
    },
  }
  process.on('message', async ({ task, ...given }: Task) =>
    process.send?.({ answer: await tasks[task](given as never) }),
  )
  process.on('disconnect', () => holdfast.close())
  process.send?.({ ready: true })
}

function stayBusy(ms: number) {
  for (const from = performance.now(); performance.now() - from < ms; );
}

async function manage(url: string) {
  const workers = Array.from({ length: 4 }, () => fork(fileURLToPath(import.meta.url), [url]))
  await Promise.all(workers.map((worker) => once(worker, 'message')))
  const ask = async (worker: ChildProcess, task: Task) => {
    worker.send(task)
    for (;;) {
      const [said] = await once(worker, 'message')
      if ('answer' in said) return said.answer
    }
  }
  const triggerAll = async (name: string, options: Omit<Trigger, 'name'>) => {
    const answers = await Promise.all(workers.map((worker) => ask(worker, { task: 'trigger', name, ...options })))
    return answers.filter((answer) => answer === 'ran it').length
  }

  console.log(`triggered 4 processes: ${await triggerAll('report', { hold: '1h' })} ran the report`)
  console.log(
    `triggered 4 processes again during the minimum hold: ${await triggerAll('report', { hold: '1h' })} ran the report`,
  )

  const winners = new Set()
  for (let day = 0; day < 8; day++) {
    const name = `daily:${day}`
    const answers = await Promise.all(
      workers.map((worker) => ask(worker, { task: 'trigger', name, hold: '1h', spread: '100ms' })),
    )
    winners.add(answers.indexOf('ran it'))
  }
  console.log(`in 8 days with a random delay, more than one process ran the report: ${winners.size > 1}`)

  const [slow, other] = [workers[0]!, workers[1]!]
  const started = once(slow, 'message')
  const ending = ask(slow, { task: 'inParts', name: 'long-report', busyMs: 3_000 })
  const [{ started: fence }] = await started
  const later = await ask(other, { task: 'takeOver', name: 'long-report' })
  console.log(`another process took over, with a larger fence: ${later > fence}`)
  console.log(`the process that was busy for too long stopped with ${await ending}`)

  const takePart = (some: ChildProcess[], ticks: number) =>
    Promise.all(some.map((worker) => ask(worker, { task: 'schedule', name: 'scheduled-report', ticks })))
  const punctual = await takePart([slow, other], 2)
  const late = await takePart(workers.slice(2), 4)
  const ran = [...punctual, ...late].flat()
  console.log(
    `with a schedule, each tick ran once, also after more processes joined: ${new Set(ran).size === ran.length}`,
  )
  for (const worker of workers) worker.disconnect()
}

// prints:
// triggered 4 processes: 1 ran the report
// triggered 4 processes again during the minimum hold: 0 ran the report
// in 8 days with a random delay, more than one process ran the report: true
// another process took over, with a larger fence: true
// the process that was busy for too long stopped with LEASE_LOST
// with a schedule, each tick ran once, also after more processes joined: true
