import { headersWith } from './headers.js'
import type { Hub, LiveMessage, ViewRequest } from './hub.js'
import { Refusal } from './refusal.js'

const maxStreams = 100
/** A page watches up to 16 views of one database, or one view of each database. */
const maxViews = 32
/** Interval between keep-alive comments, which prevent proxies from closing idle connections. */
const keepAliveMs = 15_000
/** Maximum lifetime of a stream. The browser then reconnects, and visitors who have lost access are refused. */
const maxStreamMs = 600_000
const bufferBytes = 65_536

/** View of a stream, and its text exactly as written in the URL. */
export interface StreamedView {
  readonly spec: string
  /** Hub of the view's database. */
  readonly hub: Hub
  readonly request: ViewRequest
}

/** Open streams of server-sent events. */
export class Streams {
  readonly #open = new Set<Stream>()
  #keepAlive: NodeJS.Timeout | undefined

  /** Number of open streams. */
  get size(): number {
    return this.#open.size
  }

  open(views: readonly StreamedView[], signal: AbortSignal): Response {
    if (views.length === 0 || views.length > maxViews) {
      throw new Refusal(400, 'USAGE', `Expected 1 to ${maxViews} views, got ${views.length}`)
    }
    if (this.#open.size >= maxStreams) {
      throw new Refusal(503, 'TOO_MANY_STREAMS', `${maxStreams} pages are already open`, 'Close some of the pages.')
    }
    const stream = new Stream(() => {
      this.#open.delete(stream)
      if (this.#open.size > 0) return
      clearInterval(this.#keepAlive)
      this.#keepAlive = undefined
    })
    this.#open.add(stream)
    stream.subscribe(views)
    this.#keepAlive ??= setInterval(() => {
      for (const one of this.#open) one.keepAlive()
    }, keepAliveMs).unref()
    if (signal.aborted) stream.end()
    signal.addEventListener('abort', () => stream.end(), { once: true })
    const headers = headersWith({
      'content-type': 'text/event-stream; charset=utf-8',
      // Prevents proxies from buffering or compressing the events.
      'cache-control': 'no-store, no-transform',
      'x-accel-buffering': 'no',
    })
    return new Response(stream.readable, { headers })
  }

  close(): void {
    for (const stream of this.#open) stream.end()
  }
}

/** One page's event stream. A new message for a view replaces an older message that has not been sent yet. */
class Stream {
  readonly readable: ReadableStream<Uint8Array>
  readonly #pending = new Map<string, string>()
  readonly #unsubscribers: (() => void)[] = []
  readonly #onEnd: () => void
  readonly #lifetime: NodeJS.Timeout
  #controller!: ReadableStreamDefaultController<Uint8Array>
  #isEnded = false

  constructor(onEnd: () => void) {
    this.#onEnd = onEnd
    this.#lifetime = setTimeout(() => this.end(), maxStreamMs).unref()
    const start = (controller: ReadableStreamDefaultController<Uint8Array>) => {
      this.#controller = controller
    }
    this.readable = new ReadableStream<Uint8Array>(
      { start, pull: () => this.#flush(), cancel: () => this.#release() },
      { highWaterMark: bufferBytes, size: (chunk) => chunk.byteLength },
    )
    this.#send('retry: 1000\n\n')
  }

  subscribe(views: readonly StreamedView[]): void {
    try {
      for (const { spec, hub, request } of views)
        this.#unsubscribers.push(hub.subscribe(request, (message) => this.#write(spec, message)))
    } catch (error) {
      this.end()
      throw error
    }
  }

  keepAlive(): void {
    if (this.#controller.desiredSize! > 0) this.#send(': still here\n\n')
  }

  end(): void {
    if (this.#isEnded) return
    this.#release()
    this.#controller.close()
  }

  #write(spec: string, message: LiveMessage): void {
    const view = JSON.stringify(spec)
    const frame =
      message.kind === 'failure'
        ? `event: failure\ndata: {"view":${view},"error":${JSON.stringify(message.error)}}\n\n`
        : `event: view\ndata: {"view":${view},"at":"${message.at.toISOString()}","data":${message.json}}\n\n`
    // Moves the view to the end of the queue, even if an older message was pending.
    this.#pending.delete(spec)
    this.#pending.set(spec, frame)
    this.#flush()
  }

  #flush(): void {
    for (const [spec, frame] of this.#pending) {
      if (this.#isEnded || this.#controller.desiredSize! <= 0) return
      this.#pending.delete(spec)
      this.#send(frame)
    }
  }

  #send(text: string): void {
    this.#controller.enqueue(Buffer.from(text))
  }

  #release(): void {
    if (this.#isEnded) return
    this.#isEnded = true
    clearTimeout(this.#lifetime)
    for (const stop of this.#unsubscribers) stop()
    this.#pending.clear()
    this.#onEnd()
  }
}
