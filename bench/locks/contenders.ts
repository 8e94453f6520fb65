// A process of contenders for one name: as soon as one has it, it lets go and asks again. Its parent says for how long.
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
  /** What a waiter costs by hand: a connection, blocked in the server. */
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

const contest = await kinds[kind]()
process.on('message', async ({ ms }: { ms: number }) => process.send?.(await loops(Number(each), ms, contest.once)))
process.on('disconnect', () => contest.close())
process.send?.({})
