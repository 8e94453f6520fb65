// The network before an instance. It stands between it and the server, and does what networks do: it keeps what is sent for a while, loses
// it, delays it, or loses one answer, and neither side is told.
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'

export type Direction = 'to-server' | 'to-client'

export class Network {
  #server!: Server
  #target!: URL
  #links = new Set<Link>()
  #cut = new Set<Direction>()
  #delayMs = 0
  #isToLoseAnAnswer = false

  static async before(url: string) {
    const network = new Network()
    network.#target = new URL(url)
    // What a client sends before its end may be on its way still.
    network.#server = createServer({ allowHalfOpen: true }, (client) => network.#link(client))
    await new Promise<unknown>((resolve) => network.#server.listen(0, '127.0.0.1', () => resolve(undefined)))
    return network
  }

  /** The same address, by way of this network. */
  through(url: string) {
    const changed = new URL(url)
    changed.hostname = '127.0.0.1'
    changed.port = String((this.#server.address() as AddressInfo).port)
    return changed.href
  }

  /**
   * Nothing arrives any more in these directions, not even the news that somebody has closed; who connects now gets no answer either.
   * When it is healed, what was sent meanwhile arrives late, as TCP sends it again, unless it `forgets`: then these connections stay silent
   * for ever, as behind a router that was restarted.
   */
  cut(directions: Direction[], forgets = false) {
    for (const direction of directions) this.#cut.add(direction)
    for (const link of this.#links) {
      for (const direction of directions) forgets ? link.lose(direction) : link.hold(direction)
    }
  }

  heal() {
    this.#cut.clear()
    for (const link of this.#links) link.resume()
  }

  get isCut() {
    return this.#cut.size > 0
  }

  /** From now on everything takes so much longer, one way. */
  delay(ms: number) {
    this.#delayMs = ms
  }

  /** The next statement reaches the server, and no answer on that connection comes back any more. */
  loseAnAnswer() {
    this.#isToLoseAnAnswer = true
  }

  async close() {
    for (const link of this.#links) link.destroy()
    await new Promise<unknown>((resolve) => this.#server.close(resolve))
  }

  #link(client: Socket) {
    const delayMs = () => this.#delayMs
    const onSent = (link: Link) => {
      if (!this.#isToLoseAnAnswer) return
      this.#isToLoseAnAnswer = false
      link.lose('to-client')
    }
    const link = new Link(client, connect(Number(this.#target.port), this.#target.hostname), delayMs, onSent)
    this.#links.add(link)
    client.on('close', () => this.#links.delete(link))
    for (const direction of this.#cut) link.hold(direction)
  }
}

/** One connection. */
class Link {
  #sides: Record<Direction, Socket>
  #lost = new Set<Direction>()

  constructor(client: Socket, server: Socket, delayMs: () => number, onSent: (link: Link) => void) {
    this.#sides = { 'to-server': client, 'to-client': server }
    for (const side of [client, server]) side.on('error', () => {})
    this.#pass('to-server', client, server, delayMs, () => onSent(this))
    this.#pass('to-client', server, client, delayMs, () => {})
  }

  /** What is sent that way waits. */
  hold(direction: Direction) {
    this.#sides[direction].pause()
  }

  /** What is sent that way is taken in and dropped, for ever. */
  lose(direction: Direction) {
    this.#lost.add(direction)
  }

  resume() {
    for (const side of Object.values(this.#sides)) side.resume()
  }

  destroy() {
    for (const side of Object.values(this.#sides)) side.destroy()
  }

  #pass(direction: Direction, from: Socket, to: Socket, delayMs: () => number, onSent: () => void) {
    // The end of a connection travels as its bytes do: after them, and as late. One timer for all, for two may fire in any order.
    const travelling: { due: number; work: () => void }[] = []
    const arrive = () => {
      while (travelling[0] && travelling[0].due - performance.now() < 0.5) travelling.shift()!.work()
      if (travelling[0]) setTimeout(arrive, travelling[0].due - performance.now())
    }
    const later = (work: () => void) => {
      const due = Math.max(travelling.at(-1)?.due ?? 0, performance.now() + delayMs())
      travelling.push({ due, work })
      if (travelling.length === 1) arrive()
    }
    from.on('data', (data) => {
      const isLost = this.#lost.has(direction)
      onSent()
      if (!isLost) later(() => to.write(data))
    })
    from.on('end', () => this.#lost.has(direction) || later(() => to.end()))
    from.on('close', () => this.#lost.has(direction) || from.isPaused() || later(() => to.destroy()))
  }
}
