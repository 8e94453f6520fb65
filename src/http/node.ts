import type { IncomingMessage, ServerResponse } from 'node:http'
import { describe, UsageError } from '../base/index.js'
import type { Once } from '../once/index.js'
import { type Exchange, type Policy, respond } from './policy.js'
import { ResponseCapture, sendRecorded } from './response-capture.js'

/** Where a response of Node.js is answered, for Express and Fastify alike. */
interface NodeHooks {
  /** Lets the handler begin. Its end is seen by what it sends. */
  proceed(): void
  /** The response is about to be sent without the handler. */
  takeOver(): void
  /** Neither the handler nor we have answered. `isHandled`: it has, but its answer must not be sent. */
  fail(error: unknown, isHandled: boolean): void
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
      capture = new ResponseCapture(res)
      hooks.proceed()
      return capture.response
    })
    if (response === undefined) hooks.proceed()
    else if (capture) capture.send()
    else {
      hooks.takeOver()
      sendRecorded(res, response)
    }
  } catch (error) {
    try {
      capture?.discard()
      hooks.fail(error, capture !== undefined)
    } catch {
      // The framework, or the connection, cannot cope with it: whoever asked must not wait for ever.
      res.destroy()
    }
  }
}

export function headerOf(req: IncomingMessage, name: string): string | null {
  // One that was sent twice was joined by a comma, and what follows its string is refused as it is read.
  const value = req.headers[name]
  return value === undefined ? null : String(value)
}

/** Whether the client sent a body, as the headers say. */
export function hasBody(req: IncomingMessage): boolean {
  return req.headers['transfer-encoding'] !== undefined || Number(req.headers['content-length']) > 0
}

/** What a parser has made of a body, as bytes again: the same for the same body. `isExpected`: the client sent one. */
export function bytesOf(parsed: unknown, isExpected: boolean): Uint8Array {
  if (parsed instanceof Uint8Array) return parsed
  if (typeof parsed === 'string') return Buffer.from(parsed)
  if (parsed === undefined && isExpected) throw unknownBody('nothing', 'a body that was read before and not kept')
  if (isOpaque(parsed)) throw unknownBody(describe(parsed), 'JSON carries nothing of it')
  try {
    return Buffer.from(JSON.stringify(parsed) ?? '')
  } catch (cause) {
    throw unknownBody(describe(parsed), (cause as Error).message)
  }
}

/** A stream, a Map, FormData and their like: as JSON all of them would be alike. */
function isOpaque(parsed: unknown): boolean {
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) return false
  if ('pipe' in parsed || 'getReader' in parsed) return true
  const prototype = Object.getPrototypeOf(parsed)
  return (
    prototype !== null && prototype !== Object.prototype && Object.keys(parsed).length === 0 && !('toJSON' in parsed)
  )
}

function unknownBody(got: string, reason: string): UsageError {
  return new UsageError(
    `Expected the body of the request in request.rawBody or request.body, got ${got}: ${reason}`,
    'The body is compared with that of the first request. Put the bytes into request.rawBody, or tell webhooks what to compare by its option `fingerprint`.',
  )
}

/**
 * The body of a request that nobody has read yet, put back so that it can be read again. It works because a stream says
 * that it has ended in the turn after its last byte was read, and only if nothing was put back until then.
 */
export function peekBody(req: IncomingMessage): Promise<Uint8Array> {
  if (!hasBody(req)) return Promise.resolve(Buffer.alloc(0))
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    const stop = () => {
      req.off('readable', read).off('error', fail).off('close', cut)
    }
    const fail = (error: Error) => {
      stop()
      reject(error)
    }
    const cut = () => fail(new Error('The request was cut before its end'))
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
