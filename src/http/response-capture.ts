import type { ServerResponse } from 'node:http'
import type { RecordedResponse } from './response.js'

type Headers = Record<string, number | string | readonly string[] | undefined> | readonly unknown[]
type Chunk = string | Uint8Array | null | undefined
type Callback = (error?: Error | null) => void

const overriddenMembers = ['writeHead', 'flushHeaders', 'write', 'end', 'headersSent', 'writableEnded'] as const

/**
 * Maximum time for which a response may remain open after the client has disconnected. A longer response is considered
 * endless.
 */
const maxOpenMs = 60_000

/**
 * Holds back a Node.js response until it is recorded. To the handler and middleware, the response appears to have been
 * sent.
 */
export class ResponseCapture {
  /** Resolves when the handler has ended the response. */
  readonly response: Promise<RecordedResponse>
  readonly #res: ServerResponse
  readonly #originalMembers: [(typeof overriddenMembers)[number], PropertyDescriptor | undefined][]
  readonly #headersBefore
  readonly #statusBefore: number
  readonly #chunks: Buffer[] = []
  readonly #afterSend: Callback[] = []
  #isHeadSent = false
  #isEnded = false
  #openTimer: NodeJS.Timeout | undefined

  constructor(res: ServerResponse) {
    this.#res = res
    this.#originalMembers = overriddenMembers.map((member) => [member, Object.getOwnPropertyDescriptor(res, member)])
    this.#headersBefore = headersOf(res)
    this.#statusBefore = res.statusCode
    this.response = new Promise((resolve, reject) => this.#override(resolve, reject))
    this.response.catch(() => {})
  }

  /** Sends the captured response unchanged. */
  send(): void {
    const body = this.#body()
    this.#restore()
    this.#res.end(body, () => {
      for (const callback of this.#afterSend) callback()
    })
  }

  /** Discards the captured response, so that the framework can send a different response. */
  discard(): void {
    this.#restore()
    for (const name of this.#res.getHeaderNames()) this.#res.removeHeader(name)
    this.#res.statusCode = this.#statusBefore
    this.#res.statusMessage = ''
    setHeaders(this.#res, this.#headersBefore)
  }

  #override(resolve: (response: RecordedResponse) => void, reject: (error: Error) => void): void {
    const res = this.#res
    const define = (member: (typeof overriddenMembers)[number], descriptor: PropertyDescriptor) =>
      Object.defineProperty(res, member, { configurable: true, ...descriptor })
    const method = (member: (typeof overriddenMembers)[number], value: unknown) =>
      define(member, { writable: true, value })

    define('headersSent', { get: () => this.#isHeadSent })
    define('writableEnded', { get: () => this.#isEnded })
    method('writeHead', (status: number, reason?: string | Headers, headers?: Headers) => {
      this.#isHeadSent = true
      res.statusCode = status
      if (typeof reason === 'string') res.statusMessage = reason
      setHeaders(res, pairsOf((typeof reason === 'string' ? headers : (reason ?? headers)) ?? {}))
      return res
    })
    // Calls the current writeHead, because later middleware may have replaced it to add headers.
    const sendHead = () => {
      if (!this.#isHeadSent) res.writeHead(res.statusCode)
    }
    method('flushHeaders', sendHead)
    method('write', (chunk: Chunk, encoding?: BufferEncoding | Callback | null, callback?: Callback | null) => {
      sendHead()
      this.#append(chunk, encoding)
      const done = typeof encoding === 'function' ? encoding : callback
      if (done) process.nextTick(done)
      return true
    })
    method(
      'end',
      (chunk?: Chunk | Callback, encoding?: BufferEncoding | Callback | null, callback?: Callback | null) => {
        if (this.#isEnded) return res
        sendHead()
        if (typeof chunk !== 'function') this.#append(chunk, encoding)
        this.#isEnded = true
        const done = [chunk, encoding, callback].find((given) => typeof given === 'function')
        if (done) this.#afterSend.push(done as Callback)
        const { statusCode: status, statusMessage } = res
        resolve({ status, statusText: statusMessage ?? '', headers: headersOf(res), body: this.#body() })
        return res
      },
    )
    const onClose = () => {
      if (this.#isEnded) return
      this.#openTimer = setTimeout(() => reject(new Error('The handler did not end its response')), maxOpenMs).unref()
    }
    // If the client disconnected while the key was being claimed, the response emits no further `close`.
    if (res.closed || res.destroyed) onClose()
    else res.once('close', onClose)
  }

  #append(chunk: Chunk, encoding: unknown): void {
    if (chunk === null || chunk === undefined) return
    // Copies the chunk, because the handler may reuse its buffer.
    this.#chunks.push(
      typeof chunk === 'string'
        ? Buffer.from(chunk, typeof encoding === 'string' ? (encoding as BufferEncoding) : 'utf8')
        : Buffer.from(chunk),
    )
  }

  #body(): Buffer {
    if (this.#chunks.length > 1) this.#chunks.splice(0, Number.POSITIVE_INFINITY, Buffer.concat(this.#chunks))
    return this.#chunks[0] ?? Buffer.alloc(0)
  }

  #restore(): void {
    clearTimeout(this.#openTimer)
    for (const [member, before] of this.#originalMembers) {
      if (before) Object.defineProperty(this.#res, member, before)
      else delete (this.#res as unknown as Record<string, unknown>)[member]
    }
  }
}

export function sendRecorded(res: ServerResponse, { status, statusText, headers, body }: RecordedResponse): void {
  res.statusCode = status
  if (statusText) res.statusMessage = statusText
  setHeaders(res, headers)
  res.end(body)
}

/** `getRawHeaderNames` exists in Node.js, but not in its types. */
type WithRawNames = ServerResponse & { getRawHeaderNames(): string[] }

function headersOf(res: ServerResponse): [string, string][] {
  return (res as WithRawNames)
    .getRawHeaderNames()
    .flatMap((name) => [res.getHeader(name)!].flat().map((value) => [name, String(value)] as [string, string]))
}

function setHeaders(res: ServerResponse, pairs: readonly (readonly [string, string])[]): void {
  const values = new Map<string, { name: string; all: string[] }>()
  for (const [name, value] of pairs) {
    const known = values.get(name.toLowerCase())
    if (known) known.all.push(value)
    else values.set(name.toLowerCase(), { name, all: [value] })
  }
  for (const { name, all } of values.values()) res.setHeader(name, all.length === 1 ? all[0]! : all)
}

/** Normalizes every form in which writeHead accepts headers. */
function pairsOf(headers: Headers): [string, string][] {
  const pairs = Array.isArray(headers)
    ? headers.every((entry) => Array.isArray(entry))
      ? (headers as [string, unknown][])
      : headers.flatMap((name, at) => (at % 2 === 0 ? [[name, headers[at + 1]] as [string, unknown]] : []))
    : Object.entries(headers)
  return pairs.flatMap(([name, value]) =>
    value === undefined ? [] : [value].flat().map((one) => [String(name), String(one)] as [string, string]),
  )
}
