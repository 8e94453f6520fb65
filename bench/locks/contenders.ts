// Runs a process with contenders for one name, or with callers that have a name each. Each of them gets the lock, releases it immediately
// and acquires it again. The parent's messages contain the duration of each run.
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
  async pair() {
    const holdfast = await Holdfast.open({ url, namespace: 'bench' })
    return {
      async once(caller: number) {
        const lock = await holdfast.locks.acquire(`own:${caller}`)
        await lock.release()
      },
      close: () => holdfast.close(),
    }
  },
  async handler() {
    const holdfast = await Holdfast.open({ url, namespace: 'bench' })
    return {
      once: (caller: number) => holdfast.locks.with(`own:${caller}`, () => {}),
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
