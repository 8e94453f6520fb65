// A scheduled report in several processes, without a scheduler between them: each is triggered at the same moment, and one
// of them runs it. First by hand: the hold keeps the name taken after a quick run, so that nobody runs it again for the same
// trigger; a random delay before competing spreads the work; and whoever has lost the lease stops at once. Then as a schedule,
// which remembers its ticks: no hold to be chosen, and no clocks to be synchronized.
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

/** What a worker is asked to do: the name of a task, and what it is given. */
type Task =
  | ({ task: 'trigger' } & Trigger)
  | { task: 'inParts'; name: string; busyMs: number }
  | { task: 'schedule'; name: string; ticks: number }
  | { task: 'takeOver'; name: string }

async function work(url: string) {
  // Leases ask for no session of their own: a transaction pooler may stand between.
  const holdfast = await Holdfast.open({ url, anchor: 'none' })
  const tasks: { [Name in Task['task']]: (given: Extract<Task, { task: Name }>) => Promise<unknown> } = {
    /** What cron would call on every machine. */
    async trigger({ name, spread, hold: minHold }) {
      const lease = await holdfast.leases.tryAcquire(name, { ttl: '10s', minHold, spread })
      if (lease === null) return 'left it to another'
      await lease.release()
      return 'ran it'
    },

    /** A report in parts, of which the first keeps the process busy for longer than its lease lasts. */
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

    /** Takes part until so many ticks have run somewhere, and answers with those that ran here. */
    async schedule({ name, ticks }) {
      const ran: number[] = []
      // In earnest { cron: '0 3 * * *' }.
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

  console.log(`triggered in 4 processes: ${await triggerAll('report', { hold: '1h' })} ran it`)
  console.log(`a late trigger within the hold: ${await triggerAll('report', { hold: '1h' })} ran it`)

  const winners = new Set()
  for (let day = 0; day < 8; day++) {
    const name = `daily:${day}`
    const answers = await Promise.all(
      workers.map((worker) => ask(worker, { task: 'trigger', name, hold: '1h', spread: '100ms' })),
    )
    winners.add(answers.indexOf('ran it'))
  }
  console.log(`in 8 days with a random delay more than one process had a turn: ${winners.size > 1}`)

  const [slow, other] = [workers[0]!, workers[1]!]
  const started = once(slow, 'message')
  const ending = ask(slow, { task: 'inParts', name: 'long-report', busyMs: 3_000 })
  const [{ started: fence }] = await started
  const later = await ask(other, { task: 'takeOver', name: 'long-report' })
  console.log(`another took over, with a larger fence: ${later > fence}`)
  console.log(`the one that had been busy for too long stopped with ${await ending}`)

  const takePart = (some: ChildProcess[], ticks: number) =>
    Promise.all(some.map((worker) => ask(worker, { task: 'schedule', name: 'scheduled-report', ticks })))
  const punctual = await takePart([slow, other], 2)
  const late = await takePart(workers.slice(2), 4)
  const ran = [...punctual, ...late].flat()
  console.log(`as a schedule each tick ran once, also when others came later: ${new Set(ran).size === ran.length}`)
  for (const worker of workers) worker.disconnect()
}

// prints:
// triggered in 4 processes: 1 ran it
// a late trigger within the hold: 0 ran it
// in 8 days with a random delay more than one process had a turn: true
// another took over, with a larger fence: true
// the one that had been busy for too long stopped with LEASE_LOST
// as a schedule each tick ran once, also when others came later: true
