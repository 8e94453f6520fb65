import net from 'node:net'
import type { Scheduler } from 'fast-check'

/**
 * Proxy between instances and the real server. While an order is given, the proxy holds each reply, and the scheduler of fast-check decides
 * which connection gets its reply next. So the promises of the instances settle in an order that a network could produce, and PostgreSQL alone
 * decides what the replies contain. Each connection keeps the order of its replies.
 */
export class HeldReplies {
  readonly #server: net.Server
  readonly #links = new Set<Link>()
  #scheduler: Scheduler | undefined
  #isSilent = false
  /** Number of deliveries for which several replies were there. */
  choices = 0
  /** Called when a reply has arrived or a connection has ended. */
  #onChange = () => {}

  static async before(url: string): Promise<HeldReplies> {
    const replies = new HeldReplies(Number(new URL(url).port))
    await new Promise<void>((resolve) => replies.#server.listen(0, '127.0.0.1', resolve))
    return replies
  }

  private constructor(targetPort: number) {
    this.#server = net.createServer((client) => {
      const link: Link = new Link(client, targetPort, () => this.#onArrived(link))
      this.#links.add(link)
      link.onEnd = () => {
        this.#links.delete(link)
        this.#onChange()
      }
    })
  }

  through(url: string): string {
    const changed = new URL(url)
    changed.port = String((this.#server.address() as net.AddressInfo).port)
    return changed.href
  }

  /** Delivers all replies in the order of the scheduler until `finished` has settled, and then passes replies on immediately. */
  async orderUntil(scheduler: Scheduler, finished: Promise<unknown>): Promise<void> {
    this.#scheduler = scheduler
    let isFinished = false
    const ending = finished.then(
      () => {},
      () => {},
    )
    void ending.then(() => {
      isFinished = true
      this.#onChange()
    })
    while (!isFinished) {
      if (await this.#collect()) {
        if (scheduler.count() > 1) this.choices++
        await scheduler.waitNext(1)
      }
      // The instance reacts to the reply before the next one is chosen.
      await new Promise(setImmediate)
    }
    this.#scheduler = undefined
    while (scheduler.count() > 0) await scheduler.waitNext(1)
  }

  /**
   * Waits until each statement has its reply, so that the scheduler can choose among all of them. A statement that waits for another one on the
   * server gets no reply, so the wait is short. Returns false if there is nothing to deliver.
   */
  async #collect(): Promise<boolean> {
    for (;;) {
      const isComplete = [...this.#links].every((link) => !link.isWaiting || link.hasReply)
      const count = this.#scheduler!.count()
      if (isComplete && count > 0) return true
      const changed = await this.#change(count > 0 ? maxCollectMs : maxIdleMs)
      if (!changed) return count > 0
    }
  }

  /** Returns whether something changed within the time. */
  #change(withinMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), withinMs)
      this.#onChange = () => {
        clearTimeout(timer)
        resolve(true)
      }
    })
  }

  #onArrived(link: Link): void {
    if (this.#isSilent) return
    if (this.#scheduler) void this.#scheduler.schedule(Promise.resolve(), 'reply').then(() => link.deliver())
    else link.deliver()
    this.#onChange()
  }

  /** Holds back everything that the server sends, also on new connections, until the returned function is called. */
  silence(): () => void {
    this.#isSilent = true
    return () => {
      this.#isSilent = false
      for (const link of this.#links) link.resume()
    }
  }

  /** Number of open connections. */
  get open(): number {
    return this.#links.size
  }

  /** Resolves when everything that the server has sent is delivered. */
  async delivered(): Promise<void> {
    while ([...this.#links].some((link) => link.hasReply)) await new Promise(setImmediate)
  }

  async close(): Promise<void> {
    for (const link of this.#links) link.destroy()
    await new Promise<void>((resolve) => this.#server.close(() => resolve()))
  }
}

/** Time for which a complete set of replies is awaited while there are some, and while there are none. */
const [maxCollectMs, maxIdleMs] = [3, 20]

/** Messages of the client that PostgreSQL answers with ReadyForQuery: Query and Sync. */
const asks = new Set(['Q', 'S'])

class Link {
  readonly #client: net.Socket
  readonly #server: net.Socket
  readonly #held: Buffer[] = []
  /** Number of ReadyForQuery messages that the server owes. The startup owes the first. */
  #owed = 1
  onEnd = () => {}

  constructor(
    client: net.Socket,
    port: number,
    readonly onArrived: () => void,
  ) {
    this.#client = client
    this.#server = net.connect({ port, host: '127.0.0.1' })
    const fromClient = new Messages(true)
    const fromServer = new Messages(false)
    client.on('data', (data) => {
      for (const type of fromClient.read(data)) if (asks.has(type)) this.#owed++
      this.#server.write(data)
    })
    this.#server.on('data', (data) => {
      for (const type of fromServer.read(data)) if (type === 'Z') this.#owed--
      this.#held.push(data)
      // The first data that is held announces itself, and all data is delivered together.
      if (this.#held.length === 1) this.onArrived()
    })
    for (const [one, other] of [
      [client, this.#server],
      [this.#server, client],
    ] as const) {
      one.on('error', () => {})
      // An end arrives immediately, like a reset of the connection.
      one.on('close', () => {
        other.destroy()
        this.onEnd()
      })
    }
  }

  /** Whether the server owes a reply. */
  get isWaiting(): boolean {
    return this.#owed > 0
  }

  get hasReply(): boolean {
    return this.#held.length > 0
  }

  deliver(): void {
    for (const data of this.#held.splice(0)) this.#client.write(data)
  }

  resume(): void {
    if (this.#held.length > 0) this.onArrived()
  }

  destroy(): void {
    this.#client.destroy()
  }
}

/** Finds the types of the messages in a stream. The first message of a client has no type. */
class Messages {
  #left = Buffer.alloc(0)
  #hasType: boolean

  constructor(isClient: boolean) {
    this.#hasType = !isClient
  }

  read(data: Buffer): string[] {
    this.#left = Buffer.concat([this.#left, data])
    const types: string[] = []
    for (;;) {
      const typeBytes = Number(this.#hasType)
      if (this.#left.length < typeBytes + 4) return types
      const length = typeBytes + this.#left.readInt32BE(typeBytes)
      if (this.#left.length < length) return types
      if (this.#hasType) types.push(String.fromCharCode(this.#left[0]!))
      this.#hasType = true
      this.#left = this.#left.subarray(length)
    }
  }
}
