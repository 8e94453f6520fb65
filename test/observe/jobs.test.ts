import { expect, test } from 'vitest'
import { defineJob } from '../../src/holdfast.js'
import { Observer } from '../../src/observe/index.js'
import { openPgPool } from '../../src/postgres/index.js'
import { sql } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'

const mail = defineJob('mail', { queue: 'post', run: () => {} })

async function observe<T>(url: string, look: (observer: Observer) => Promise<T>): Promise<T> {
  const database = openPgPool({ connectionString: url })
  try {
    return await look(new Observer(database))
  } finally {
    await database.close()
  }
}

test('however many jobs there are, a look walks the indexes and stops', async () => {
  const url = await databaseUrl()
  // Without statistics, and nearly all in one queue: what misleads a planner.
  for (const table of ['job', 'waiting', 'job_history_rest']) {
    await sql(url, `alter table holdfast.${table} set (autovacuum_enabled = false)`)
  }
  const { jobs } = await open({ url })
  await jobs.enqueue(mail, 1)
  await jobs.enqueue(defineJob('rare', { queue: 'small', run: () => {} }), 1)
  const key = "holdfast.lock_key('default', 'queue/post')"
  const columns = 'id, queue, priority, kind, payload'
  const values = `i, ${key}, 0, 'mail', '{}'`
  const many = 'from generate_series(100, 60000) as i'
  await sql(
    url,
    `insert into holdfast.job (${columns}, seq) select ${values}, i ${many};
     insert into holdfast.waiting (${columns}, run_at) select ${values}, now() + interval '1 day' ${many};
     insert into holdfast.job_history (${columns}, state, enqueued_at, failed, crashes, max_crashes)
       select ${values}, case when i % 2 = 0 then 'buried' else 'done' end, now(), 0, 0, 3 ${many}`,
  )
  await observe(url, async (observer) => {
    const before = await blocksRead(url)
    expect(await observer.jobs({ queue: 'post' })).toHaveLength(50)
    expect(await observer.jobs({ states: ['waiting'], limit: 20 })).toHaveLength(20)
    expect(await observer.jobs({ states: ['buried'] })).toMatchObject({ 0: { id: 60_000, state: 'buried' } })
    expect(await observer.jobs({ states: ['ready'], kind: 'rare' })).toMatchObject([{ kind: 'rare', queue: 'small' }])
    const looked = await blocksRead(url)
    expect(looked - before).toBeLessThan(25_000)
    // Exact up to ten thousand.
    expect(await observer.queues()).toMatchObject([
      { name: 'post', ready: 10_001, waiting: 10_001, buried: 10_001, running: 0, workers: 0 },
      { name: 'small', ready: 1, waiting: 0, buried: 0 },
    ])
    expect((await blocksRead(url)) - looked).toBeLessThan(40_000)
  })
})

test('a queue whose name nobody has written down is there by its key', async () => {
  const url = await databaseUrl()
  const { jobs } = await open({ url })
  const { id } = await jobs.enqueue(mail, 1)
  await expect.poll(() => sql(url, 'select from holdfast.queue')).toHaveLength(1)
  await sql(url, 'delete from holdfast.queue')
  await observe(url, async (observer) => {
    const key = (await observer.queues())[0]!.key
    expect(await observer.queues()).toMatchObject([{ key, name: null, namespace: null, ready: 1 }])
    expect(await observer.jobs()).toMatchObject([{ id, queue: null, namespace: null, queueKey: key }])
    expect(await observer.queues({ namespace: 'default' })).toEqual([])
  })
})

async function blocksRead(url: string): Promise<number> {
  const [row] = await sql<{ blocks: number }>(
    url,
    `select coalesce(sum(shared_blks_hit + shared_blks_read), 0)::int as blocks
     from pg_stat_statements
     where dbid = (select oid from pg_database where datname = current_database())
       and (query like '%as looked%' or query like '%worked.workers%')
       and query not like '%pg_stat_statements%'`,
  )
  return row!.blocks
}
