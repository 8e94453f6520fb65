import type { IncomingMessage, ServerResponse } from 'node:http'
import { describe, toJson, UsageError } from '../base/index.js'
import type { Once } from '../once/index.js'
import { type Exchange, type Policy, respond } from './policy.js'
import { ResponseCapture, sendRecorded } from './response-capture.js'

/** Operations that differ between Express, Fastify and Node.js without a framework. */
interface NodeHooks {
  /** Starts the handler, which has finished when it ends the response, or when the returned promise rejects. */
  proceed(): unknown
  /** Called when a response is sent without running the handler, before the response is sent. */
  takeOver(): void
  /**
   * Reports an error if no response has been sent. If `isHandled` is true, the handler has already run, but its
   * response must not be sent.
   */
  fail(error: unknown, isHandled: boolean): unknown
}

export async function protectNode(
  once: Once,
  policy: Policy,
  exchange: Exchange,
  res: ServerResponse,
  hooks: NodeHooks,
): Promise<void> {
  let capture: ResponseCapture | undefined
  try {
    const response = await respond(once, policy, exchange, () => {
      const captured = new ResponseCapture(res)
      capture = captured
      // The promise of an asynchronous handler may reject before the response has ended, and only then ends the wait.
      const ended = Promise.resolve(hooks.proceed()).then(() => captured.response)
      return Promise.race([captured.response, ended])
    })
    if (response === undefined) await hooks.proceed()
    else if (capture) capture.send()
    else {
      hooks.takeOver()
      sendRecorded(res, response)
    }
  } catch (error) {
    try {
      capture?.discard()
      await hooks.fail(error, capture !== undefined)
    } catch {
      // The framework or the connection has failed too. Closes the connection, so that the client does not wait
      // forever.
      res.destroy()
    }
  }
}

export function headerOf(req: IncomingMessage, name: string): string | null {
  // Node.js joins repeated headers with a comma. The header's parser rejects such a value.
  const value = req.headers[name]
  return value === undefined ? null : String(value)
}

/** Whether the headers announce a body. */
export function hasBody(req: IncomingMessage): boolean {
  return req.headers['transfer-encoding'] !== undefined || Number(req.headers['content-length']) > 0
}

/** Returns deterministic bytes for a parsed body. `isExpected` is true if the client sent a body. */
export function bytesOf(parsed: unknown, isExpected: boolean): Uint8Array {
  if (parsed instanceof Uint8Array) return parsed
  if (typeof parsed === 'string') return Buffer.from(parsed)
  if (parsed === undefined && isExpected) throw unknownBody('nothing', 'the body was already read and was not stored')
  if (isStream(parsed)) throw unknownBody(describe(parsed), 'JSON cannot represent it')
  try {
    return Buffer.from(toJson(parsed, 'a body') ?? '')
  } catch (cause) {
    throw unknownBody(describe(parsed), (cause as Error).message)
  }
}

function isStream(parsed: unknown): boolean {
  return typeof parsed === 'object' && parsed !== null && ('pipe' in parsed || 'getReader' in parsed)
}

/** Returns the error for a body that cannot be compared. */
export function unknownBody(got: string, reason: string): UsageError {
  return new UsageError(
    `Expected the request's body in request.rawBody or request.body, got ${got}: ${reason}`,
    "Holdfast compares the body with the first request's body. Set request.rawBody to the body's bytes, or pass the `fingerprint` option to webhooks.",
  )
}

/**
 * Reads an unread body and puts it back into the stream. A stream emits `end` one turn of the event loop after its last
 * byte was read, and only if nothing has been put back by then. Therefore the body can be put back in time.
 */
export function peekBody(req: IncomingMessage): Promise<Uint8Array> {
  if (!hasBody(req)) return Promise.resolve(Buffer.alloc(0))
  return new Promise((resolve, reject) => {
    // A stream that was destroyed before emits no further events.
    if (req.destroyed) return reject(cutError())
    const chunks: Buffer[] = []
    const stop = () => {
      req.off('readable', read).off('error', fail).off('close', cut)
    }
    const fail = (error: Error) => {
      stop()
      reject(error)
    }
    const cut = () => fail(cutError())
    const read = () => {
      for (let chunk = req.read(); chunk !== null; chunk = req.read()) chunks.push(chunk as Buffer)
      if (!req.complete) return
      stop()
      const body = Buffer.concat(chunks)
      if (body.length > 0) req.unshift(body)
      resolve(body)
    }
    req.on('readable', read).on('error', fail).on('close', cut)
  })
}

function cutError(): Error {
  return new Error('The connection was closed before the end of the request')
}
