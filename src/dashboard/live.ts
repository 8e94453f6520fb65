import { headersWith } from './headers.js'
import type { Hub, Question, Told } from './hub.js'
import { Refusal } from './refusal.js'

const mostStreams = 100
const mostViews = 16
/** Proxies end connections on which nothing comes. */
const beatMs = 15_000
/** Then the browser opens it anew, and whoever may not come any more is refused. */
const longestMs = 600_000
const waitingBytes = 65_536

/** What one stream asks for: a question, and how the visitor wrote it. */
export interface Wanted {
  readonly as: string
  readonly question: Question
}

/** The streams of events that are open. */
export class Streams {
  readonly #hub: Hub
  readonly #open = new Set<Stream>()
  #beat: NodeJS.Timeout | undefined

  constructor(hub: Hub) {
    this.#hub = hub
  }

  /** How many are open. */
  get size(): number {
    return this.#open.size
  }

  open(wanted: readonly Wanted[], signal: AbortSignal): Response {
    if (wanted.length === 0 || wanted.length > mostViews) {
      throw new Refusal(400, 'USAGE', `Expected 1 to ${mostViews} views, got ${wanted.length}`)
    }
    if (this.#open.size >= mostStreams) {
      throw new Refusal(503, 'TOO_MANY_STREAMS', `${mostStreams} pages are open already`, 'Close some of them.')
    }
    const stream = new Stream(() => {
      this.#open.delete(stream)
      if (this.#open.size > 0) return
      clearInterval(this.#beat)
      this.#beat = undefined
    })
    this.#open.add(stream)
    stream.begin(this.#hub, wanted)
    this.#beat ??= setInterval(() => {
      for (const one of this.#open) one.beat()
    }, beatMs).unref()
    if (signal.aborted) stream.end()
    signal.addEventListener('abort', () => stream.end(), { once: true })
    const headers = headersWith({
      'content-type': 'text/event-stream; charset=utf-8',
      // What compresses would wait for more; so would a proxy.
      'cache-control': 'no-store, no-transform',
      'x-accel-buffering': 'no',
    })
    return new Response(stream.readable, { headers })
  }

  close(): void {
    for (const stream of this.#open) stream.end()
  }
}

/** One page that watches. What it has not taken yet is replaced by what is newer: it can be slow, and never is far behind. */
class Stream {
  readonly readable: ReadableStream<Uint8Array>
  readonly #waiting = new Map<string, string>()
  readonly #stops: (() => void)[] = []
  readonly #onEnd: () => void
  readonly #over: NodeJS.Timeout
  #controller!: ReadableStreamDefaultController<Uint8Array>
  #isOver = false

  constructor(onEnd: () => void) {
    this.#onEnd = onEnd
    this.#over = setTimeout(() => this.end(), longestMs).unref()
    this.readable = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller
        },
        pull: () => this.#flush(),
        cancel: () => this.#leave(),
      },
      { highWaterMark: waitingBytes, size: (chunk) => chunk.byteLength },
    )
    this.#send('retry: 1000\n\n')
  }

  begin(hub: Hub, wanted: readonly Wanted[]): void {
    try {
      for (const { as, question } of wanted) this.#stops.push(hub.watch(question, (told) => this.#tell(as, told)))
    } catch (error) {
      this.end()
      throw error
    }
  }

  beat(): void {
    if (this.#controller.desiredSize! > 0) this.#send(': still here\n\n')
  }

  end(): void {
    if (this.#isOver) return
    this.#leave()
    this.#controller.close()
  }

  #tell(as: string, told: Told): void {
    const view = JSON.stringify(as)
    const frame =
      told.kind === 'trouble'
        ? `event: trouble\ndata: {"view":${view},"error":${JSON.stringify(told.error)}}\n\n`
        : `event: view\ndata: {"view":${view},"at":"${told.at.toISOString()}","data":${told.json}}\n\n`
    // Last in the row, also when an older one was waiting.
    this.#waiting.delete(as)
    this.#waiting.set(as, frame)
    this.#flush()
  }

  #flush(): void {
    for (const [as, frame] of this.#waiting) {
      if (this.#isOver || this.#controller.desiredSize! <= 0) return
      this.#waiting.delete(as)
      this.#send(frame)
    }
  }

  #send(text: string): void {
    this.#controller.enqueue(Buffer.from(text))
  }

  #leave(): void {
    if (this.#isOver) return
    this.#isOver = true
    clearTimeout(this.#over)
    for (const stop of this.#stops) stop()
    this.#waiting.clear()
    this.#onEnd()
  }
}
