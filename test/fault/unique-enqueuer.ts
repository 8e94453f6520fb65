// A process that writes documents, enqueues jobs with a unique key per document, and runs these jobs.
import { setTimeout as sleep } from 'node:timers/promises'
import { defineJob, Holdfast } from 'holdfast'
import pg from 'pg'
import { randomFrom } from '../property/random.ts'
import { patiently } from '../setup/patiently.ts'

interface Options {
  url: string
  seed: number
  documents: number
  rounds: number
}

const { url, seed, documents, rounds }: Options = JSON.parse(process.argv[2]!)
const random = randomFrom(seed)
const pool = new pg.Pool({ connectionString: url, max: 6 })
const holdfast = await patiently(() => Holdfast.open({ url, log: false }))

const index = defineJob('index', {
  retry: { attempts: 1_000, backoff: 1, maxBackoff: 20 },
  run: async (document: number, { id }) => {
    const { rows } = await pool.query('select version from document where id = $1', [document])
    await pool.query('insert into seen values ($1, $2, $3)', [document, rows[0].version, id])
    if (random.chance(0.1)) throw new Error('fails by chance')
    await sleep(random.below(5))
  },
})
const only = defineJob('only', {
  run: async (document: number) => {
    await pool.query('insert into working values ($1)', [document])
    await sleep(random.below(5))
    await pool.query('delete from working where document = $1', [document])
  },
})
const worker = holdfast.jobs.work([index, only], { concurrency: 1 + random.below(4) })

let enqueued = 0
let created = 0
const count = ({ isNew }: { isNew: boolean }) => {
  enqueued++
  if (isNew) created++
}

async function nextOf(client: pg.Pool | pg.PoolClient, document: number): Promise<number> {
  const text = 'update document set version = version + 1 where id = $1 returning version'
  return (await client.query(text, [document])).rows[0].version
}

/** Records that a run of the job must see this version or a later one. */
const promise = (client: pg.Pool | pg.PoolClient, ...values: number[]) =>
  client.query('insert into promise values ($1, $2, $3)', values)

async function writeInTransaction(document: number) {
  const client = await pool.connect()
  try {
    await client.query('begin')
    const version = await nextOf(client, document)
    const { id } = await holdfast.jobs.enqueue(index, document, {
      unique: { key: `${document}`, until: 'started', existing: random.pick(['keep', 'replace']) },
      priority: random.below(3),
      tx: client,
    })
    await promise(client, document, version, id)
    await sleep(random.below(20))
    await client.query(random.chance(0.8) ? 'commit' : 'rollback')
  } finally {
    client.release()
  }
}

async function write(document: number) {
  const version = await nextOf(pool, document)
  const { id } = await holdfast.jobs.enqueue(index, document, {
    unique: { key: `${document}`, until: 'started', existing: random.pick(['keep', 'replace']) },
    ...(random.chance(0.3) ? { delay: random.below(100) } : {}),
  })
  await promise(pool, document, version, id)
}

for (let round = 0; round < rounds; round++) {
  const jobs = Array.from({ length: 1 + random.below(20) }, () => {
    const document = random.below(documents)
    if (random.chance(0.3)) return writeInTransaction(document)
    if (random.chance(0.5)) return write(document)
    return holdfast.jobs.enqueue(only, document, { unique: `${document}` }).then(count)
  })
  await Promise.all(jobs)
}
process.send?.({ enqueued, created })
process.on('message', async () => {
  await worker.close()
  await holdfast.close()
  await pool.end()
  process.disconnect()
})
