import { expect, inject, onTestFinished } from 'vitest'
import { sql, until } from '../setup/facts.js'
import { catchUp, type Pair, samePlace, severalHosts, startPair } from '../setup/pair.js'
import { Child } from './children.js'
import { openProxy } from './fixture.js'
import type { SilentProxy } from './silent-proxy.js'

/** A primary and a standby. Two proxies can disconnect the primary from its clients and from its standby. */
export interface Fixture {
  readonly pair: Pair
  /** Proxy between the clients and the primary. */
  readonly clients: SilentProxy
  /** Proxy between the standby and the primary. */
  readonly stream: SilentProxy
  /** URL of the database on the primary, without the proxy. */
  readonly primaryUrl: string
  readonly standbyUrl: string
  /** URL of the database with both hosts: the primary through its proxy, and the standby. */
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
  await sql(primaryUrl, 'create table effect (number text)')
  if (synchronous) {
    await until(
      'the standby streams from the primary',
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

/** Silences existing and future connections through the proxies. Neither side is notified. */
export function cutOff(...proxies: SilentProxy[]): void {
  for (const proxy of proxies) {
    proxy.silence('to-server', 'to-client')
    proxy.onConnection = () => new Promise(() => {})
  }
}

interface Message {
  readonly event: 'open' | 'finished' | 'granted' | 'ended' | 'acknowledged' | 'unexpected'
  /** Time in microseconds on a clock that all processes share. */
  readonly at: number
  readonly name: string
  readonly fence: number
  readonly lost: boolean
  readonly number: string
  readonly message: string
}

const byTime = (one: Message, other: Message) => one.at - other.at

/** Processes that work during the failover. */
export class Fleet {
  readonly members: readonly Child<Message>[]

  constructor(url: string, options: { size?: number; expiryMs: number }) {
    const { size = 3, expiryMs } = options
    const names = ['one', 'two']
    this.members = Array.from(
      { length: size },
      () => new Child<Message>('./failover-member.ts', { url, expiryMs, names }),
    )
  }

  get allMessages(): Message[] {
    return this.members.flatMap(({ messages }) => messages).sort(byTime)
  }

  get acknowledged(): string[] {
    return this.allMessages.filter(({ event }) => event === 'acknowledged').map(({ number }) => number)
  }

  get lastFence(): number {
    return Math.max(0, ...this.allMessages.filter(({ event }) => event === 'granted').map(({ fence }) => fence))
  }

  /** Waits until every member has acquired a name and enqueued a job after this call. */
  async works(withinMs = 30_000): Promise<void> {
    const seen = this.members.map(({ messages }) => messages.length)
    await until(
      'all members acquire names and enqueue jobs',
      () =>
        this.members.every(({ messages }, i) => {
          const since = messages.slice(seen[i]).map(({ event }) => event)
          return since.includes('granted') && since.includes('acknowledged')
        }),
      withinMs,
    )
  }

  /** Waits until no more messages arrive. A busy process may read and report a response long after the network was cut. */
  async hasReported(): Promise<void> {
    let [count, since] = [-1, 0]
    await until('no new message has arrived for 500 ms', () => {
      const now = this.acknowledged.length
      if (now !== count) [count, since] = [now, performance.now()]
      return performance.now() - since > 500
    })
  }

  /** Stops enqueueing, and waits until no job is left on the server. */
  async drains(url: string): Promise<void> {
    for (const member of this.members) member.send('finish')
    await Promise.all(this.members.map((member) => member.waitFor('finished', ({ event }) => event === 'finished')))
    // Jobs that failed with their connection wait for their next attempt.
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
    // Each silent connection to the old primary is detected by its own timeout.
    await until('all jobs have ended', async () => (await left()).length === 0, 45_000).catch(async (error) => {
      throw new Error(`${error.message}: ${JSON.stringify(await left())}`)
    })
    expect(await sql(url, 'select * from holdfast.job_lost()')).toEqual([])
  }

  async close(): Promise<void> {
    await Promise.all(this.members.map((member) => member.close()))
  }
}

/** Checks that a name never had two holders, and that each holder had a larger fence than the holders before. */
export function expectOneHolder(...fleets: Fleet[]): void {
  const messages = fleets.flatMap((fleet) => fleet.allMessages).sort(byTime)
  expect(messages.filter(({ event }) => event === 'unexpected')).toEqual([])
  const holder = new Map<string, Message>()
  const largest = new Map<string, number>()
  let grants = 0
  for (const message of messages) {
    if (message.event === 'ended' && holder.get(message.name)?.fence === message.fence) holder.delete(message.name)
    if (message.event !== 'granted') continue
    grants++
    expect(holder.get(message.name), `"${message.name}" has two holders at ${message.at}`).toBeUndefined()
    expect(message.fence).toBeGreaterThan(largest.get(message.name) ?? 0)
    holder.set(message.name, message)
    largest.set(message.name, message.fence)
  }
  expect(grants).toBeGreaterThan(fleets.flatMap(({ members }) => members).length)
}

/** Returns the job numbers of all effects, including duplicates. */
export async function effects(url: string): Promise<string[]> {
  return (await sql<{ number: string }>(url, 'select number from effect')).map(({ number }) => number)
}
