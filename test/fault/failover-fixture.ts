import { expect, inject, onTestFinished } from 'vitest'
import { sql, until } from '../setup/facts.js'
import { catchUp, type Pair, samePlace, severalHosts, startPair } from '../setup/pair.js'
import { Child } from './children.js'
import { openProxy } from './fixture.js'
import type { SilentProxy } from './silent-proxy.js'

/** A pair whose old primary can be cut off: from the clients that come by its proxy, and from its standby. */
export interface Fixture {
  readonly pair: Pair
  /** Before the primary, for its clients. */
  readonly clients: SilentProxy
  /** Before the primary, for its standby. */
  readonly stream: SilentProxy
  /** Of the database, on each server alone. */
  readonly primaryUrl: string
  readonly standbyUrl: string
  /** Of the database, by its hosts: the primary through the proxy, and the standby. */
  readonly url: string
}

export async function openFixture({ synchronous = false } = {}): Promise<Fixture> {
  let stream: SilentProxy | undefined
  const pair = await startPair(async ({ url }) => {
    stream = await openProxy(url)
    return stream.port
  })
  onTestFinished(() => pair.stop())
  const primaryUrl = await pair.primary.createDatabase('app', { template: inject('preparedServer').templateName })
  await sql(primaryUrl, 'create table noted (number text)')
  if (synchronous) {
    await until(
      'the standby follows',
      async () => (await sql(primaryUrl, 'select from pg_stat_replication')).length > 0,
    )
    await sql(primaryUrl, "alter system set synchronous_standby_names = '*'")
    await sql(primaryUrl, 'select pg_reload_conf()')
  }
  await catchUp(pair)
  const clients = await openProxy(primaryUrl)
  const standbyUrl = samePlace(pair.standby, primaryUrl)
  return {
    pair,
    clients,
    stream: stream!,
    primaryUrl,
    standbyUrl,
    url: severalHosts(clients.through(primaryUrl), standbyUrl),
  }
}

/** The network between them is gone, now and for whoever comes: nothing arrives, and nobody is told. */
export function cutOff(...proxies: SilentProxy[]): void {
  for (const proxy of proxies) {
    proxy.silence('to-server', 'to-client')
    proxy.onConnection = () => new Promise(() => {})
  }
}

interface Told {
  readonly event: 'open' | 'quiet' | 'granted' | 'over' | 'acknowledged' | 'trouble'
  /** Microseconds, on a clock that all processes share. */
  readonly at: number
  readonly name: string
  readonly fence: number
  readonly lost: boolean
  readonly number: string
  readonly message: string
}

const byTime = (one: Told, other: Told) => one.at - other.at

/** Processes that work while the primary is lost. */
export class Fleet {
  readonly members: readonly Child<Told>[]

  constructor(url: string, options: { size?: number; expiryMs: number }) {
    const { size = 3, expiryMs } = options
    const names = ['one', 'two']
    this.members = Array.from({ length: size }, () => new Child<Told>('./failover-member.ts', { url, expiryMs, names }))
  }

  get told(): Told[] {
    return this.members.flatMap(({ messages }) => messages).sort(byTime)
  }

  get acknowledged(): string[] {
    return this.told.filter(({ event }) => event === 'acknowledged').map(({ number }) => number)
  }

  get lastFence(): number {
    return Math.max(0, ...this.told.filter(({ event }) => event === 'granted').map(({ fence }) => fence))
  }

  /** Every member has been granted something and acknowledged a job, after now. */
  async works(withinMs = 30_000): Promise<void> {
    const seen = this.members.map(({ messages }) => messages.length)
    await until(
      'everybody works',
      () =>
        this.members.every(({ messages }, i) => {
          const since = messages.slice(seen[i]).map(({ event }) => event)
          return since.includes('granted') && since.includes('acknowledged')
        }),
      withinMs,
    )
  }

  /** Whoever was answered before the network was cut has said so: a busy process may read it later. */
  async hasTold(): Promise<void> {
    let [count, since] = [-1, 0]
    await until('nobody has anything left to tell', () => {
      const now = this.acknowledged.length
      if (now !== count) [count, since] = [now, performance.now()]
      return performance.now() - since > 500
    })
  }

  /** Enqueues no more, and waits until there is no job left on the server. */
  async drains(url: string): Promise<void> {
    for (const member of this.members) member.send('enough')
    await Promise.all(this.members.map((member) => member.tells('quiet', ({ event }) => event === 'quiet')))
    // Those that failed with the connection they had wait for their next attempt.
    const left = () =>
      sql(
        url,
        `select id, session, holdfast.is_present(session) as present, crashes, failed
         from holdfast.job_live
         union all
         select id, null, null, crashes, failed
         from holdfast.waiting
         limit 3`,
      )
    // Connections that fell silent with the old primary are found out one after the other, each by its own deadline.
    await until('all jobs have ended', async () => (await left()).length === 0, 45_000).catch(async (error) => {
      throw new Error(`${error.message}: ${JSON.stringify(await left())}`)
    })
    expect(await sql(url, 'select * from holdfast.job_lost()')).toEqual([])
  }

  async close(): Promise<void> {
    await Promise.all(this.members.map((member) => member.close()))
  }
}

/** Nobody believed in a name while another did, and whoever came later had a larger fence. */
export function hadOneHolder(...fleets: Fleet[]): void {
  const told = fleets.flatMap((fleet) => fleet.told).sort(byTime)
  expect(told.filter(({ event }) => event === 'trouble')).toEqual([])
  const holder = new Map<string, Told>()
  const largest = new Map<string, number>()
  let grants = 0
  for (const now of told) {
    if (now.event === 'over' && holder.get(now.name)?.fence === now.fence) holder.delete(now.name)
    if (now.event !== 'granted') continue
    grants++
    expect(holder.get(now.name), `two hold "${now.name}" at ${now.at}`).toBeUndefined()
    expect(now.fence).toBeGreaterThan(largest.get(now.name) ?? 0)
    holder.set(now.name, now)
    largest.set(now.name, now.fence)
  }
  expect(grants).toBeGreaterThan(fleets.flatMap(({ members }) => members).length)
}

/** The numbers of the jobs that had their effect, each as often as it had it. */
export async function noted(url: string): Promise<string[]> {
  return (await sql<{ number: string }>(url, 'select number from noted')).map(({ number }) => number)
}
