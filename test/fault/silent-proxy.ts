import net from 'node:net'

export type Direction = 'to-server' | 'to-client'

/**
 * Proxy between clients and the server that can become silent like a network: no data arrives, not even the notification that a connection was
 * closed, and neither side is notified.
 */
export class SilentProxy {
  readonly #server: net.Server
  readonly #links = new Set<Link>()
  #isCut = false
  /** Text of the next statement that gets no response. */
  #swallowed: string | undefined
  readonly #targetPort: number
  /** Called for each new connection. The proxy connects to the server when the returned promise has resolved. */
  onConnection: (link: Link) => unknown = () => {}

  static async before(url: string): Promise<SilentProxy> {
    const proxy = new SilentProxy(Number(new URL(url).port))
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve))
    return proxy
  }

  private constructor(targetPort: number) {
    this.#targetPort = targetPort
    this.#server = net.createServer({ allowHalfOpen: true }, async (client) => {
      const link = new Link(client, (data) => this.#swallows(data))
      if (this.#isCut) return link.destroy()
      this.#links.add(link)
      link.onceOver(() => this.#links.delete(link))
      await this.onConnection(link)
      link.connect(this.#targetPort)
    })
  }

  get port(): number {
    return (this.#server.address() as net.AddressInfo).port
  }

  /** Returns the URL of the same database through this proxy. */
  through(url: string): string {
    const changed = new URL(url)
    changed.port = String(this.port)
    return changed.href
  }

  /** Silences all connections that have reached the server. Later connections work. */
  silence(...directions: Direction[]): void {
    for (const link of this.#links) if (link.isConnected) link.silence(...directions)
  }

  /**
   * Lets the next statement that contains this text reach the server, and then drops everything that the server sends on that connection. Resolves
   * when the statement has been sent.
   */
  swallowReplyTo(text: string): Promise<void> {
    this.#swallowed = text
    return new Promise((resolve) => {
      this.#onSwallowed = resolve
    })
  }

  #onSwallowed = () => {}

  #swallows(data: Buffer): boolean {
    if (this.#swallowed === undefined || !data.includes(this.#swallowed)) return false
    this.#swallowed = undefined
    this.#onSwallowed()
    return true
  }

  /** Ends all connections and refuses new ones, as if the server were down. */
  cut(): void {
    this.#isCut = true
    for (const link of this.#links) link.destroy()
  }

  restore(): void {
    this.#isCut = false
  }

  /** Number of connections that the clients consider open. */
  get open(): number {
    return [...this.#links].filter(({ isOpen }) => isOpen).length
  }

  /** Ends all connections, including silent ones, so that the server notices their end. */
  async close(): Promise<void> {
    for (const link of this.#links) link.destroy()
    await new Promise<void>((resolve) => this.#server.close(() => resolve()))
  }
}

const readyForQuery = Buffer.from([0x5a, 0, 0, 0, 5, 0x49])

/** One connection through the proxy. */
export class Link {
  readonly #client: net.Socket
  #server: net.Socket | undefined
  readonly #silent = new Set<Direction>()
  #silentOnceReady = false
  readonly #swallows: (data: Buffer) => boolean
  #onOver = () => {}

  constructor(client: net.Socket, swallows: (data: Buffer) => boolean = () => false) {
    this.#client = client
    this.#swallows = swallows
    client.on('error', () => {})
    client.on('close', () => this.#checkOver())
    client.pause()
  }

  connect(port: number): void {
    if (this.#client.destroyed) return
    const server = net.connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    this.#server = server
    server.on('error', () => {})
    server.on('close', () => this.#checkOver())
    this.#pass(this.#client, server, 'to-server')
    this.#pass(server, this.#client, 'to-client')
  }

  get isConnected(): boolean {
    return this.#server !== undefined
  }

  /** Whether the client considers the connection open. */
  get isOpen(): boolean {
    return !this.#client.destroyed
  }

  /** Calls back when the connection is closed on both sides. A silent connection stays open on the server. */
  onceOver(callback: () => void): void {
    this.#onOver = callback
  }

  #checkOver(): void {
    if (this.#client.destroyed && (this.#server?.destroyed ?? true)) this.#onOver()
  }

  /** Reads and drops the data of these directions, so that the sender does not see a full buffer. */
  silence(...directions: Direction[]): void {
    for (const direction of directions) this.#silent.add(direction)
  }

  /** Becomes silent in both directions after the server's first ReadyForQuery message. */
  silenceOnceReady(): void {
    this.#silentOnceReady = true
  }

  destroy(): void {
    this.#client.destroy()
    this.#server?.destroy()
  }

  #pass(from: net.Socket, to: net.Socket, direction: Direction): void {
    from.on('data', (data) => {
      if (direction === 'to-server' && this.#swallows(data)) this.silence('to-client')
      if (!this.#silent.has(direction)) to.write(data)
      const isReady = direction === 'to-client' && data.subarray(-readyForQuery.length).equals(readyForQuery)
      if (this.#silentOnceReady && isReady) this.silence('to-server', 'to-client')
    })
    from.on('end', () => {
      if (!this.#silent.has(direction)) to.end()
    })
    from.on('close', () => {
      if (!this.#silent.has(direction)) to.destroy()
    })
    from.resume()
  }
}
