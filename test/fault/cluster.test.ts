import { describe, expect, onTestFinished, test } from 'vitest'
import { missing, startCluster } from '../../examples/cluster/cluster.ts'
import { judge } from '../property/history.js'
import { sql, until } from '../setup/facts.js'
import { Child } from './children.js'

// The cluster of examples/cluster. Its leader is switched over, killed and partitioned, HOLDFAST_ROUNDS times.

const faults = ['switchover', 'kill', 'cutOff'] as const

if (missing.length > 0) console.warn(`The test on a Patroni cluster is skipped: apt-get install ${missing.join(' ')}`)

type Message =
  | { event: 'done'; at: string }
  | { event: 'held'; name: string; id: string; fence: number; from: string; to: string }
  | { event: 'acknowledged'; name: string; at: string }
  | { event: 'unexpected'; error: string }
  | { event: 'finished' }

const rounds = Number(process.env.HOLDFAST_ROUNDS ?? 1)
/** The default, which is less than the `ttl` of the cluster's leader. */
const expiryMs = 10_000

describe.skipIf(missing.length > 0)('on a Patroni cluster', () => {
  test('a name has one holder and no acknowledged job is lost when the leader changes', {
    timeout: 60_000 + rounds * 180_000,
  }, async () => {
    const cluster = await startCluster()
    onTestFinished(() => cluster.stop())
    await sql(cluster.url, 'create table effect (name text)')
    const { url, pooledUrl = url } = cluster
    const connections = [{ url }, { url }, { url: pooledUrl, directUrl: url }]
    const members = connections.map(
      (connection) => new Child<Message>('./cluster-member.ts', { ...connection, expiryMs }),
    )
    const messagesOf = <Event extends Message['event']>(event: Event) =>
      members.flatMap(({ messages }) =>
        messages.filter((message): message is Extract<Message, { event: Event }> => message.event === event),
      )
    /** Times of each kind of operation. */
    const times = {
      lock: () => messagesOf('held').flatMap(({ name, from }) => (name === 'lock in turn' ? [BigInt(from)] : [])),
      lease: () => messagesOf('held').flatMap(({ name, from }) => (name === 'lease in turn' ? [BigInt(from)] : [])),
      enqueued: () => messagesOf('acknowledged').map(({ at }) => BigInt(at)),
      done: () => messagesOf('done').map(({ at }) => BigInt(at)),
    }
    const allContinue = async (withinMs: number) => {
      const since = process.hrtime.bigint()
      for (const [what, all] of Object.entries(times)) {
        await until(`${what} continues`, () => all().filter((at) => at > since).length > 5, withinMs)
      }
    }
    const took = new Map<string, number[]>()
    const note = (what: string, ms: number) => took.set(what, [...(took.get(what) ?? []), ms])

    await allContinue(60_000)
    for (const fault of Array.from({ length: rounds }, () => faults).flat()) {
      const at = process.hrtime.bigint()
      const former = await cluster[fault]()
      await cluster.successorOf(former)
      note(`${fault}: another leader`, msBetween(at, process.hrtime.bigint()))
      await allContinue(60_000)
      for (const [what, all] of Object.entries(times)) note(`${fault}: ${what} again`, endOfPause(at, all()))
      await cluster.heal()
    }
    await allContinue(60_000)
    for (const member of members) member.send('finish')
    for (const member of members) await member.waitFor('finished', ({ event }) => event === 'finished')
    // Includes the jobs that failed with their connection and wait for their next attempt.
    const left = () => sql(url, 'select id from holdfast.job_live union all select id from holdfast.waiting limit 1')
    await until('no job is left', async () => (await left()).length === 0, 45_000)
    for (const member of members) await member.close()
    console.log([...took].map(([what, ms]) => `${what} after ${inSeconds(ms)}`).join('\n'))

    expect(messagesOf('unexpected')).toEqual([])
    const holds = messagesOf('held').map(({ name, id, fence, from, to }) => {
      const facts = { schedule: 0, names: [name], mode: 'exclusive' as const, notifiedAt: undefined }
      return { ...facts, id, fence, from: BigInt(from), to: BigInt(to) }
    })
    expect(judge(holds, []).violations).toEqual([])
    const kept = holds.filter(({ names }) => names[0] === 'lock kept')
    expect(kept.length, 'holds of the kept lock, which is lost in each fault').toBeGreaterThan(rounds * faults.length)
    const effects = (await sql<{ name: string }>(url, 'select name from effect')).map(({ name }) => name)
    const unique = new Set(effects)
    expect(effects.length - unique.size, 'number of duplicate effects').toBe(0)
    expect(
      messagesOf('acknowledged').filter(({ name }) => !unique.has(name)),
      'lost jobs that were acknowledged',
    ).toEqual([])
  })
})

/** Returns the number of milliseconds from `at` until the end of the longest pause between operations. */
function endOfPause(at: bigint, times: readonly bigint[]): number {
  const [first, ...rest] = [at, ...times.filter((time) => time > at).sort((a, b) => Number(a - b))]
  let [last, longest, end] = [first!, 0n, at]
  for (const time of rest) {
    if (time - last > longest) [longest, end] = [time - last, time]
    last = time
  }
  return msBetween(at, end)
}

function inSeconds(ms: readonly number[]): string {
  const sorted = ms.map((one) => (one / 1_000).toFixed(1)).sort((a, b) => Number(a) - Number(b))
  return `${sorted.join(' ')} s, median ${sorted[Math.floor(sorted.length / 2)]}`
}

const msBetween = (from: bigint, to: bigint) => Number(to - from) / 1e6
