// Simulates a network connection between two programs on one machine. The connection can be cut.
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'

interface Pair {
  readonly near: Socket
  far: Socket | undefined
}

/**
 * Forwards connections to a port. While the wire is cut, no data arrives, not even the notification that the other side has closed a connection. Open
 * connections stay open. New connections are accepted but receive no response. After `mend`, the data arrives late, as if TCP sent it again.
 */
export class Wire {
  #pairs = new Set<Pair>()
  #isCut = false
  #server: Server
  #toPort: number

  /** Opens a wire to a port on which a program listens, now or later. */
  static async to(port: number) {
    const wire = new Wire(port)
    await once(wire.#server, 'listening')
    return wire
  }

  constructor(toPort: number) {
    this.#toPort = toPort
    this.#server = createServer({ allowHalfOpen: true }, (near) => this.#accept(near)).listen(0, '127.0.0.1')
  }

  /** Port on which the wire listens. */
  get port() {
    return (this.#server.address() as AddressInfo).port
  }

  cut() {
    this.#isCut = true
    for (const { near, far } of this.#pairs) {
      near.unpipe()
      far?.unpipe()
    }
  }

  mend() {
    if (!this.#isCut) return
    this.#isCut = false
    for (const pair of this.#pairs) this.#join(pair)
  }

  close() {
    this.#server.close()
    for (const { near, far } of this.#pairs) {
      near.destroy()
      far?.destroy()
    }
  }

  #accept(near: Socket) {
    const pair: Pair = { near, far: undefined }
    this.#pairs.add(pair)
    this.#watch(near, pair)
    if (!this.#isCut) this.#join(pair)
  }

  #join(pair: Pair) {
    if (pair.far === undefined) {
      pair.far = connect({ port: this.#toPort, host: '127.0.0.1', allowHalfOpen: true })
      this.#watch(pair.far, pair)
    }
    const { near, far } = pair
    if (near.destroyed || far.destroyed) return this.#end(pair)
    near.pipe(far)
    far.pipe(near)
  }

  #watch(socket: Socket, pair: Pair) {
    socket.on('error', () => {}) // The event `close` follows.
    socket.on('close', () => {
      if (!this.#isCut) this.#end(pair)
    })
  }

  #end(pair: Pair) {
    this.#pairs.delete(pair)
    pair.near.destroy()
    pair.far?.destroy()
  }
}
