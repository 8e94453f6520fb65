// Moves a queue to another database while jobs are enqueued and run. The move is interrupted once and started again: each job runs exactly once.
import { defineJob, Holdfast, type JobDefinition } from 'holdfast'
import pg from 'pg'
import { withDatabase } from './database.ts'

interface Move<Input> {
  readonly from: Holdfast
  readonly to: Holdfast
  /** Client of the first database. */
  readonly client: pg.Client
  readonly queue: string
  readonly definitions: readonly JobDefinition<Input>[]
}

/**
 * Moves the jobs that no worker has claimed. After an error or a crash, call the function again. Jobs with links (unique keys, lanes, workflows) or
 * recorded steps stay. Resume the queue until the old workers have run them.
 * Returns the number of these jobs.
 */
async function moveQueue<Input>({ from, to, client, queue, definitions }: Move<Input>): Promise<number> {
  // After this call, no worker claims a job of the queue.
  await from.jobs.pause(queue)
  const { rows } = await client.query<{ id: string; is_linked: boolean }>(
    `select
       job.id,
       coalesce(job.links, '{}') - 'trace' <> '{}' or exists (select from holdfast.job_step where job_step.job = job.id) as is_linked
     from holdfast.queue
     join (
       select queue, id, links from holdfast.job_live where session is null
       union all
       select queue, id, links from holdfast.waiting
     ) as job on job.queue = queue.key
     where queue.namespace = $1
       and queue.name = $2
     order by job.id`,
    ['examples', queue],
  )
  const movable = rows.filter(({ is_linked }) => !is_linked).map(({ id }) => Number(id))
  const move = async (id: number) => {
    const job = await from.jobs.find(id)
    if (job === null || (job.state !== 'ready' && job.state !== 'waiting')) return
    const definition = definitions.find(({ kind }) => kind === job.kind)
    if (!definition) throw new Error(`No definition for ${job.kind}`)
    const { runAt, priority, meta } = job
    // The key prevents a second job if the program ends before the next line, and moves the same job again.
    const { status } = await to.once.run(
      `move-queue/${queue}/${id}`,
      { wait: '30s', retain: '90d' },
      async ({ tx }) => {
        await to.jobs.enqueue(definition, job.input as Input, { tx, priority, meta, ...(runAt && { runAt }) })
      },
    )
    if (status !== 'in-progress') await from.jobs.cancel(id, 'Moved to another database')
  }
  for (let at = 0; at < movable.length; at += 50) await Promise.all(movable.slice(at, at + 50).map(move))
  return rows.length - movable.length
}

await withDatabase(async (url) => {
  const client = new pg.Client(url)
  await client.connect()
  // Two schemas of one database take the place of two databases.
  const eu = await Holdfast.open({ url, namespace: 'examples' })
  const us = await Holdfast.open({ url, namespace: 'examples', schema: 'holdfast_us' })

  const ran = new Map<number, string[]>()
  const mailIn = (place: string) =>
    defineJob('send', {
      queue: 'mail',
      run: async ({ number }: { number: number }) => {
        await new Promise((resolve) => setTimeout(resolve, 5))
        ran.set(number, [...(ran.get(number) ?? []), place])
      },
    })
  const [send, sendInUs] = [mailIn('eu'), mailIn('us')]

  // 1. Workers in both databases.
  eu.jobs.work([send], { concurrency: 5 })
  us.jobs.work([sendInUs], { concurrency: 5 })

  // 2. The producers change to the new database one after the other.
  let next = 0
  const enqueue = (holdfast: Holdfast, count: number, delay: number) =>
    holdfast.jobs.enqueueMany(
      send,
      Array.from({ length: count }, () => ({ number: next++ })),
      { delay },
    )
  await enqueue(eu, 60, 0)
  await enqueue(eu, 60, 500)
  await enqueue(us, 40, 0)

  // 3. The move is interrupted between the two databases, and starts again.
  const { cancel } = eu.jobs
  let calls = 0
  eu.jobs.cancel = (id, reason) => {
    if (++calls > 10) throw new Error('interrupted')
    return cancel.call(eu.jobs, id, reason)
  }
  const move = { from: eu, to: us, client, queue: 'mail', definitions: [send] }
  await moveQueue(move).catch((error: Error) => console.log(`the move failed: ${error.message}`))
  eu.jobs.cancel = cancel
  await enqueue(us, 40, 0)
  let left = 0
  do left = await moveQueue(move)
  while ((await client.query('select from holdfast.job_live')).rows.length > 0)
  console.log(`left in the old database: ${left}`)

  // 4. Each job has run once, in one of the databases.
  while (ran.size < next) await new Promise((resolve) => setTimeout(resolve, 20))
  const places = [...ran.values()]
  console.log(`${next} jobs, lost: ${next - ran.size}, run twice: ${places.filter(({ length }) => length > 1).length}`)
  console.log(`both databases ran jobs: ${new Set(places.flat()).size === 2}`)
  await Promise.all([eu.close(), us.close()])
  await client.end()
})

// prints:
// the move failed: interrupted
// left in the old database: 0
// 200 jobs, lost: 0, run twice: 0
// both databases ran jobs: true
