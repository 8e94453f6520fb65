import { backoffMs, type Key, pause } from '../base/index.js'
import { arrayOf, DatabaseUnreachableError, type Life } from '../postgres/index.js'
import { Lines } from './lines.js'
import type { Server } from './server.js'

/** One request for a permit: what is asked under one life, known by its token. */
export interface Request {
  readonly key: Key
  readonly name: string
  readonly token: string
  readonly life: Life
  readonly weight: number
  readonly max: number
}

/** See `holdfast.limit_turn`. */
export type Kind = 'take' | 'wait' | 'give' | 'leave' | 'void'

export type Verdict = 'granted' | 'waiting' | 'full' | 'unsettled' | 'over' | 'given' | 'left' | 'gone' | 'locked'

export interface Answer {
  readonly verdict: Verdict
  readonly fence: number
  readonly inUse: number
  readonly waiting: number
  readonly since: Date | undefined
  readonly sinceMs: number | undefined
}

interface Ask extends Request {
  readonly kind: Kind
}

interface Row {
  place: number | null
  verdict: Verdict
  token: string
  fence: string | null
  used: string | null
  queued: number | null
  oldest_at_ms: number | null
  oldest_for_ms: number | null
}

/**
 * What an instance asks of permits. All of one turn of the event loop goes out as one statement; what is given back comes
 * before what is taken.
 */
export class Turns {
  readonly #server: Server
  readonly #instanceId: string
  readonly #onServed: (token: string, fence: number) => void
  readonly #lines = new Lines<Ask, Answer>((asks, patient) => this.#send(asks, patient))

  /** `onServed` is told of the instance's own waits that were granted because of something else that it asked. */
  constructor(server: Server, instanceId: string, onServed: (token: string, fence: number) => void) {
    this.#server = server
    this.#instanceId = instanceId
    this.#onServed = onServed
  }

  ask(kind: Kind, request: Request): Promise<Answer> {
    return this.#lines.ask({ ...request, kind })
  }

  /**
   * Asks until there is an answer, or the life is over: then the permit is nobody's anyway. `give` for what is known to
   * be held; `void` for what may still be on its way to the server.
   */
  async surely(kind: 'give' | 'void', request: Request): Promise<void> {
    for (let attempt = 0; ; attempt++) {
      try {
        await this.ask(kind, request)
        return
      } catch (error) {
        if (!(error instanceof DatabaseUnreachableError)) throw error
        if (!request.life.trusted) return
        await pause(backoffMs(attempt, 50, 1_000))
      }
    }
  }

  async #send(asks: readonly Ask[], patient: boolean): Promise<readonly Answer[]> {
    const { channel, sql } = this.#server
    this.#server.countAsks(asks.length)
    const facts = [
      asks.map(({ kind }) => kind),
      asks.map(({ key }) => key.key),
      asks.map(({ token }) => token),
      asks.map(({ life }) => life.number),
      asks.map(({ weight }) => weight),
      asks.map(({ max }) => max),
    ].map(arrayOf)
    const names = JSON.stringify(asks.map(({ name }) => name))
    const { namespace } = asks[0]!.key
    const values = [channel, this.#instanceId, namespace, names, ...facts, patient]
    const rows = await this.#server.run<Row>(sql.turn, values)
    const answers: Answer[] = new Array(asks.length).fill(gone)
    for (const row of rows) {
      if (row.place === null) this.#onServed(row.token, Number(row.fence))
      else answers[row.place] = answerOf(row)
    }
    return answers
  }
}

/** What there is no row about. */
const gone: Answer = { verdict: 'gone', fence: 0, inUse: 0, waiting: 0, since: undefined, sinceMs: undefined }

function answerOf(row: Row): Answer {
  return {
    verdict: row.verdict,
    fence: Number(row.fence),
    inUse: Number(row.used),
    waiting: row.queued ?? 0,
    since: row.oldest_at_ms === null ? undefined : new Date(row.oldest_at_ms),
    sinceMs: row.oldest_for_ms ?? undefined,
  }
}
