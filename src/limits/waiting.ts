import { Gather, type Key } from '../base/index.js'
import type { Waits } from '../postgres/index.js'
import type { Dependents } from './dependents.js'
import type { Server } from './server.js'
import type { Request, Verdict } from './turns.js'

/** A fence, or `gone`: the queue, or the life, is over, and it must be asked for again. */
type WaitOutcome = number | 'gone'

interface Row {
  place: number
  verdict: Verdict
  fence: string | null
}

const tickMs = 50

/**
 * The waits of an instance. They stand in the queue of the database; here they are told of their grant, in one of three
 * ways: by the answer to something else that the instance asked; by a notification, whereupon the instance looks; and by a look
 * from time to time, which alone is relied on. A look also finds out whether somebody who stands before has died.
 */
export class Waiting {
  readonly #server: Server
  readonly #dependents: Dependents
  readonly #waits = new Map<string, Wait>()
  readonly #looks = new Gather<Request, Row>((requests) => this.#look(requests))
  readonly #longWaits: Waits
  #ticks = 0
  #timer: NodeJS.Timeout | undefined

  constructor(server: Server, dependents: Dependents, longWaits: Waits) {
    this.#server = server
    this.#dependents = dependents
    this.#longWaits = longWaits
    longWaits.watch(() => this.#holding())
  }

  /** Who waits is told by the rows in the queue; what else the same flow of control holds is written down beside. */
  *#holding(): Iterable<Wait> {
    for (const wait of this.#waits.values()) if (wait.isQueued && wait.ask.holding.length > 0) yield wait
  }

  /** To be called before the server is asked: the grant may be heard of before the answer. */
  enter(request: Request, holding: readonly string[]): Wait {
    const wait = new Wait(request, holding, () => this.#leave(wait))
    if (holding.length > 0) this.#longWaits.wake()
    this.#waits.set(request.token, wait)
    this.#dependents.add(request.life, wait)
    this.#timer ??= setInterval(() => this.#tick(), tickMs * (0.9 + Math.random() * 0.2))
    return wait
  }

  granted(token: string, fence: number): void {
    this.#waits.get(token)?.settle(fence)
  }

  /** A notification says that it may have been granted. */
  hear(token: string): void {
    const wait = this.#waits.get(token)
    if (wait) void this.#lookAt(wait)
  }

  /** The places of those of the requests that are not there any more. */
  async gone(requests: readonly Request[]): Promise<number[]> {
    return (await this.#look(requests)).filter(({ verdict }) => verdict === 'gone').map(({ place }) => place)
  }

  #leave(wait: Wait): void {
    this.#waits.delete(wait.request.token)
    this.#dependents.delete(wait.request.life, wait)
    if (this.#waits.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #tick(): void {
    this.#ticks++
    for (const wait of this.#waits.values()) if (wait.isDue(this.#ticks)) void this.#lookAt(wait)
  }

  async #lookAt(wait: Wait): Promise<void> {
    wait.isLookedAt = true
    const { isQueued } = wait
    try {
      const { verdict, fence } = await this.#looks.ask(wait.request)
      if (verdict === 'granted') wait.settle(Number(fence))
      // Unless the request had perhaps not arrived yet.
      else if (verdict === 'gone' && isQueued) wait.settle('gone')
    } catch {
      // The next look will tell.
    } finally {
      wait.isLookedAt = false
    }
  }

  #look(requests: readonly Request[]): Promise<Row[]> {
    const { channel, sql } = this.#server
    const asks = requests.map(({ key, token }, place) => ({ place, key: key.key, token }))
    return this.#server
      .run<Row>(sql.look, [channel, JSON.stringify(asks)])
      .then((rows) => rows.sort((a, b) => a.place - b.place))
  }
}

/** One wait, from before it is asked for until it is granted, gone or given up. */
export class Wait {
  readonly kind = 'permit'
  readonly ask: { readonly holding: readonly string[] }
  readonly askedAt = performance.now()
  readonly request: Request
  readonly outcome: Promise<WaitOutcome>
  /** The server has said that it stands in the queue. */
  isQueued = false
  isLookedAt = false
  #age = 0
  #settle!: (outcome: WaitOutcome) => void
  readonly leave: () => void

  constructor(request: Request, holding: readonly string[], leave: () => void) {
    this.request = request
    this.ask = { holding }
    this.leave = leave
    this.outcome = new Promise((resolve) => {
      this.#settle = resolve
    })
  }

  get key(): Key {
    return this.request.key
  }

  settle(outcome: WaitOutcome): void {
    this.leave()
    this.#settle(outcome)
  }

  lost(): void {
    this.settle('gone')
  }

  /** After 50 and 100 ms, then five times, then twice a second; all of an instance together, so that it is one statement. */
  isDue(tick: number): boolean {
    if (!this.isQueued || this.isLookedAt) return false
    this.#age++
    return this.#age <= 2 || tick % (this.#age < 20 ? 4 : 10) === 0
  }
}
