import { ClosedError } from '../base/index.js'
import { isSame } from './changes.js'
import type { Ground } from './ground.js'
import { Refusal } from './refusal.js'
import { jsonOf, saidOf } from './said.js'
import type { AnyView } from './view.js'
import type { ErrorSaid } from './wire.js'

/** So many questions are asked at a time. */
const mostWatches = 100
/** How soon a database that is gone is looked for again. */
const retryMs = 1_000

/** What whoever watches is told. `json` is the data. */
export type Told =
  | { readonly kind: 'picture'; readonly at: Date; readonly json: string }
  | { readonly kind: 'trouble'; readonly error: ErrorSaid }

/** A view with its parameters, as it can be asked. */
export interface Question {
  /** The same for the same question. */
  readonly id: string
  readonly view: AnyView
  readonly params: Parameters<AnyView['read']>[1]
}

interface Watch {
  readonly question: Question
  readonly listeners: Set<(told: Told) => void>
  dueAt: number
  /** The latest that was told: pictures are compared with it. */
  picture: { readonly told: Told & { kind: 'picture' }; readonly data: unknown } | undefined
  trouble: ErrorSaid | undefined
}

/**
 * Asks what somebody watches, each question once however many watch it, at its own pace; one after the other, so that the
 * database never gets them in a burst. Tells those who watch what has changed. Nobody watching: nothing is asked.
 */
export class Hub {
  readonly #ground: Ground
  readonly #watches = new Map<string, Watch>()
  #timer: NodeJS.Timeout | undefined
  #isAsking = false

  constructor(ground: Ground) {
    this.#ground = ground
  }

  /** How many questions are watched. */
  get size(): number {
    return this.#watches.size
  }

  /** Tells the listener what is known, at once if somebody else watches it already, and then what changes. Returns how to stop. */
  watch(question: Question, listener: (told: Told) => void): () => void {
    let watch = this.#watches.get(question.id)
    if (watch === undefined) {
      if (this.#watches.size >= mostWatches) {
        throw new Refusal(503, 'TOO_MANY_VIEWS', `${mostWatches} views are watched already`, 'Close some pages.')
      }
      watch = { question, listeners: new Set(), dueAt: performance.now(), picture: undefined, trouble: undefined }
      this.#watches.set(question.id, watch)
    }
    const { listeners, picture, trouble } = watch
    listeners.add(listener)
    if (picture) listener(picture.told)
    if (trouble) listener({ kind: 'trouble', error: trouble })
    this.#wake()
    return () => {
      listeners.delete(listener)
      if (listeners.size === 0 && this.#watches.get(question.id)?.listeners === listeners) {
        this.#watches.delete(question.id)
      }
    }
  }

  /** One answer, in its turn; at once if somebody else watches it already. */
  once(question: Question): Promise<Told> {
    return new Promise((resolve) => {
      let latest: Told
      const stop = this.watch(question, (told) => {
        latest = told
        // The listener may be called before it knows how to stop, and with a picture before the trouble that came after it.
        queueMicrotask(() => {
          stop()
          resolve(latest)
        })
      })
    })
  }

  close(): void {
    clearTimeout(this.#timer)
    for (const watch of this.#watches.values()) tellTrouble(watch, saidOf(new ClosedError('The dashboard')))
    this.#watches.clear()
  }

  #wake(): void {
    if (this.#isAsking) return
    clearTimeout(this.#timer)
    const next = this.#next()
    if (next) this.#timer = setTimeout(() => void this.#askAll(), Math.max(0, next.dueAt - performance.now())).unref()
  }

  #next(): Watch | undefined {
    let next: Watch | undefined
    for (const watch of this.#watches.values()) if (!next || watch.dueAt < next.dueAt) next = watch
    return next
  }

  async #askAll(): Promise<void> {
    this.#isAsking = true
    for (let next = this.#next(); next && next.dueAt <= performance.now(); next = this.#next()) await this.#ask(next)
    this.#isAsking = false
    this.#wake()
  }

  async #ask(watch: Watch): Promise<void> {
    const { view, params } = watch.question
    const begunAt = performance.now()
    try {
      await this.#ground.ready()
      const offset = await this.#ground.clockOffset()
      const askedAt = performance.now()
      const data = await view.read(this.#ground.asking, params)
      const endedAt = performance.now()
      this.#tell(watch, data, new Date((askedAt + endedAt) / 2 + offset))
      // One that takes long is asked less often.
      watch.dueAt = endedAt + Math.max(view.everyMs, 2 * (endedAt - begunAt))
    } catch (error) {
      const said = saidOf(error)
      const tookMs = performance.now() - begunAt
      if (said.code === 'DATABASE_UNREACHABLE' && !(await this.#ground.answers())) this.#tellGone(watch, said)
      else {
        watch.dueAt = performance.now() + Math.max(retryMs, view.everyMs, 2 * tookMs)
        tellTrouble(watch, said.code === 'DATABASE_UNREACHABLE' ? unanswered(error as Error) : said)
      }
    }
  }

  /** It is gone for all of them, so one of them finds out when it is back, and not each in its turn. */
  #tellGone(watch: Watch, said: ErrorSaid): void {
    const again = performance.now() + retryMs
    watch.dueAt = again
    for (const other of this.#watches.values()) {
      other.dueAt = Math.max(other.dueAt, again)
      tellTrouble(other, said)
    }
  }

  #tell(watch: Watch, data: unknown, at: Date): void {
    const { picture, trouble } = watch
    if (picture && !trouble && isSame(picture.data, data, at.getTime() - picture.told.at.getTime())) return
    const told = { kind: 'picture', at, json: jsonOf(data) } as const
    watch.picture = { told, data }
    watch.trouble = undefined
    // The others need not wait for their turn of retrying.
    if (trouble?.code === 'DATABASE_UNREACHABLE') {
      for (const other of this.#watches.values()) {
        if (other.trouble?.code === trouble.code) other.dueAt = performance.now()
      }
    }
    for (const listener of watch.listeners) listener(told)
  }
}

/** Of one question alone: the database answers others. */
function unanswered({ message, cause }: Error): ErrorSaid {
  return {
    code: 'UNANSWERED',
    message: `The database is there, but gave no answer to this: ${cause instanceof Error ? cause.message : message}`,
    hint: 'It is asked again by itself.',
  }
}

function tellTrouble(watch: Watch, error: ErrorSaid): void {
  if (watch.trouble?.code === error.code && watch.trouble.message === error.message) return
  watch.trouble = error
  for (const listener of watch.listeners) listener({ kind: 'trouble', error })
}
