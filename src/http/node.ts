import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Once } from '../once/index.js'
import { Capture, sendRecorded } from './capture.js'
import { type Exchange, type Policy, respond } from './policy.js'

/** Where a response of Node.js is answered, for Express and Fastify alike. */
export interface NodeWay {
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
  way: NodeWay,
): Promise<void> {
  let capture: Capture | undefined
  try {
    const response = await respond(once, policy, exchange, () => {
      capture = new Capture(res)
      way.proceed()
      return capture.response
    })
    if (response === undefined) way.proceed()
    else if (capture) capture.send()
    else {
      way.takeOver()
      sendRecorded(res, response)
    }
  } catch (error) {
    capture?.discard()
    way.fail(error, capture !== undefined)
  }
}

export function headerOf(req: IncomingMessage, name: string): string | null {
  // One that was sent twice was joined by a comma, and what follows its string is refused as it is read.
  const value = req.headers[name]
  return value === undefined ? null : String(value)
}

/** What a parser has made of a body, as bytes again: the same for the same body. */
export function bytesOf(parsed: unknown): Uint8Array {
  if (parsed instanceof Uint8Array) return parsed
  if (typeof parsed === 'string') return Buffer.from(parsed)
  return Buffer.from(parsed === undefined ? '' : JSON.stringify(parsed))
}

/**
 * The body of a request that nobody has read yet, put back so that it can be read again. It works because a stream says
 * that it has ended in the turn after its last byte was read, and only if nothing was put back until then.
 */
export function peekBody(req: IncomingMessage): Promise<Uint8Array> {
  const isEmpty = req.headers['transfer-encoding'] === undefined && !(Number(req.headers['content-length']) > 0)
  if (isEmpty || req.readableEnded) return Promise.resolve(Buffer.alloc(0))
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
