// Runs a process with contenders for one name. A contender that gets the lock releases it immediately and acquires it again. The parent's
// messages contain the duration of each run.
import { Holdfast } from 'holdfast'
import pg from 'pg'
import { loops } from '../measure.ts'

const [kind, url, each] = process.argv.slice(2) as [keyof typeof kinds, string, string]

const kinds = {
  async holdfast() {
    const holdfast = await Holdfast.open({ url, namespace: 'bench' })
    return {
      async once() {
        const lock = await holdfast.locks.acquire('wanted')
        await lock.release()
      },
      close: () => holdfast.close(),
    }
  },
  /** Handwritten: each contender has its own connection and waits in the server. */
  async blocking() {
    const clients = Array.from({ length: Number(each) }, () => new pg.Client({ connectionString: url }))
    for (const client of clients) await client.connect()
    return {
      async once(contender: number) {
        await clients[contender]!.query('select pg_advisory_lock(1)')
        await clients[contender]!.query('select pg_advisory_unlock(1)')
      },
      close: () => Promise.all(clients.map((client) => client.end())),
    }
  },
}

const contenders = await kinds[kind]()
process.on('message', async ({ ms }: { ms: number }) => process.send?.(await loops(Number(each), ms, contenders.once)))
process.on('disconnect', () => contenders.close())
process.send?.({})
