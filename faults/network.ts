// A simulated network between an instance and the server. It delays or drops data, or drops the response to one statement. Neither side is
// notified.
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
    // A client may close the connection while data that it sent is still delayed.
    network.#server = createServer({ allowHalfOpen: true }, (client) => network.#link(client))
    await new Promise<unknown>((resolve) => network.#server.listen(0, '127.0.0.1', () => resolve(undefined)))
    return network
  }

  /** Returns the URL of the same database through this network. */
  through(url: string) {
    const changed = new URL(url)
    changed.hostname = '127.0.0.1'
    changed.port = String((this.#server.address() as AddressInfo).port)
    return changed.href
  }

  /**
   * Stops all data in these directions, including the notification that a connection was closed. New connections
   * receive no response either. After `heal`, the data arrives late, as if TCP sent it again. With `forgets`, the
   * connections stay silent forever, as after a router restart.
   */
  cut(directions: Direction[], forgets = false) {
    for (const direction of directions) this.#cut.add(direction)
    for (const link of this.#links) {
      for (const direction of directions) forgets ? link.lose(direction) : link.hold(direction)
    }
  }

  /** Leads new connections to another server. */
  moveTo(url: string) {
    this.#target = new URL(url)
  }

  heal() {
    this.#cut.clear()
    for (const link of this.#links) link.resume()
  }

  get isCut() {
    return this.#cut.size > 0
  }

  /** Delays all data from now on, by `ms` in each direction. */
  delay(ms: number) {
    this.#delayMs = ms
  }

  /** Lets the next statement reach the server, and then drops everything that the server sends on that connection. */
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

/** One connection through the network. */
class Link {
  #sides: Record<Direction, Socket>
  #lost = new Set<Direction>()

  constructor(client: Socket, server: Socket, delayMs: () => number, onSent: (link: Link) => void) {
    this.#sides = { 'to-server': client, 'to-client': server }
    for (const side of [client, server]) side.on('error', () => {})
    this.#pass('to-server', client, server, delayMs, () => onSent(this))
    this.#pass('to-client', server, client, delayMs, () => {})
  }

  /** Holds back the data in one direction. */
  hold(direction: Direction) {
    this.#sides[direction].pause()
  }

  /** Reads and drops the data in one direction, forever. */
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
    // The end of a connection is delayed like its data, and comes after it. One timer serves the queue, because two timers may fire in any order.
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
