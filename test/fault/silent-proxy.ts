import net from 'node:net'

export type Direction = 'to-server' | 'to-client'

/**
 * Stands between a client and the server, and can go silent like a network: nothing that is sent arrives any more, not
 * even the news that the connection was closed, and neither side is told.
 */
export class SilentProxy {
  readonly #server: net.Server
  readonly #links = new Set<Link>()
  #isCut = false
  /** The next statement with this in it gets no answer. */
  #swallowed: string | undefined
  readonly #targetPort: number
  /** Called for each new connection, which waits for it. */
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

  /** The same address, by way of this proxy. */
  through(url: string): string {
    const changed = new URL(url)
    changed.port = String(this.port)
    return changed.href
  }

  /** Silences every connection that reaches the server now; later ones work. */
  silence(...directions: Direction[]): void {
    for (const link of this.#links) if (link.isConnected) link.silence(...directions)
  }

  /**
   * The next statement with this text in it reaches the server, and nothing that the server says on that connection comes
   * back any more. Resolves when it has been sent.
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

  /** The server is gone: every connection ends, and none comes about. */
  cut(): void {
    this.#isCut = true
    for (const link of this.#links) link.destroy()
  }

  restore(): void {
    this.#isCut = false
  }

  /** How many connections the clients believe in. */
  get open(): number {
    return [...this.#links].filter(({ isOpen }) => isOpen).length
  }

  /** The network is back, and whoever was behind it is gone: the server hears of that, whatever was silent. */
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
    client.on('close', () => this.#look())
    client.pause()
  }

  connect(port: number): void {
    if (this.#client.destroyed) return
    const server = net.connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    this.#server = server
    server.on('error', () => {})
    server.on('close', () => this.#look())
    this.#pass(this.#client, server, 'to-server')
    this.#pass(server, this.#client, 'to-client')
  }

  get isConnected(): boolean {
    return this.#server !== undefined
  }

  /** Whether the client believes in it. */
  get isOpen(): boolean {
    return !this.#client.destroyed
  }

  /** Calls back when neither side believes in it any more. A silent one lives on at the server. */
  onceOver(callback: () => void): void {
    this.#onOver = callback
  }

  #look(): void {
    if (this.#client.destroyed && (this.#server?.destroyed ?? true)) this.#onOver()
  }

  /** What arrives is taken in and dropped, so that the sender sees no full buffer either. */
  silence(...directions: Direction[]): void {
    for (const direction of directions) this.#silent.add(direction)
  }

  /** Goes silent both ways when the server has said for the first time that it is ready. */
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
