import { Gather } from '../base/index.js'
import { DatabaseUnreachableError } from '../postgres/index.js'

interface Keyed {
  readonly key: { readonly key: string; readonly label: string }
}

/** Answers for each ask, in order. With `patient`, all asks are for one entity, and its row may be waited for. */
export type Send<Ask, Answer> = (asks: readonly Ask[], patient: boolean) => Promise<readonly Answer[]>

/** Of the pool's connections, so many may wait for rows at a time. */
const mostPatient = 2
const patienceMs = 10_000
/** In one statement. Until it has ended, all that it decided is locked. */
const most = 250

/**
 * No entity slows another. What is asked in one turn of the event loop goes out together, but an entity whose row
 * somebody else has locked just then is not waited for: it is answered with `locked`, and asked for again in a line of its own,
 * patiently, together with whatever else is asked of it meanwhile.
 */
export class Lines<Ask extends Keyed, Answer extends { readonly verdict: string }> {
  readonly #send: Send<Ask, Answer>
  readonly #common: Gather<Ask, Answer>
  readonly #lines = new Map<string, { readonly gather: Gather<Ask, Answer>; users: number }>()
  readonly #queue: (() => void)[] = []
  #patient = 0

  constructor(send: Send<Ask, Answer>) {
    this.#send = send
    this.#common = new Gather((asks) => send(asks, false), { most })
  }

  async ask(ask: Ask): Promise<Answer> {
    if (!this.#lines.has(ask.key.key)) {
      const answer = await this.#common.ask(ask)
      if (answer.verdict !== 'locked') return answer
    }
    return this.#askAlone(ask)
  }

  async #askAlone(ask: Ask): Promise<Answer> {
    const { key, label } = ask.key
    const until = performance.now() + patienceMs
    const line = this.#lines.get(key) ?? { gather: new Gather((asks) => this.#sendPatiently(asks), { most }), users: 0 }
    this.#lines.set(key, line)
    line.users++
    try {
      for (;;) {
        const answer = await line.gather.ask(ask)
        if (answer.verdict !== 'locked') return answer
        if (performance.now() > until) {
          throw new DatabaseUnreachableError(`Another transaction keeps the row of "${label}" locked`)
        }
      }
    } finally {
      line.users--
      if (line.users === 0) this.#lines.delete(key)
    }
  }

  async #sendPatiently(asks: readonly Ask[]): Promise<readonly Answer[]> {
    if (this.#patient === mostPatient) await new Promise<void>((resolve) => this.#queue.push(resolve))
    else this.#patient++
    try {
      return await this.#send(asks, true)
    } finally {
      const next = this.#queue.shift()
      if (next) next()
      else this.#patient--
    }
  }
}
