import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Once } from '../once/index.js'
import { bytesOf, hasBody, headerOf, peekBody, protectNode } from './node.js'
import type { Exchange, Policy } from './policy.js'
import { problemResponse } from './response.js'
import { sendRecorded } from './response-capture.js'

/** A request with the properties that body parsers and routers add. */
type ParsedRequest = IncomingMessage & { body?: unknown; rawBody?: unknown; originalUrl?: string }

export function protectExpress(once: Once, policy: Policy) {
  return (req: ParsedRequest, res: ServerResponse, next: (error?: unknown) => void): void => {
    void protectNode(once, policy, exchangeOf(req), res, {
      proceed: () => next(),
      takeOver: () => {},
      fail: next,
    })
  }
}

export function protectListener<Given extends IncomingMessage>(
  once: Once,
  policy: Policy,
  listener: (req: Given, res: ServerResponse) => unknown,
) {
  return (req: Given, res: ServerResponse): Promise<void> =>
    protectNode(once, policy, exchangeOf(req), res, {
      proceed: () => listener(req, res),
      takeOver: () => {},
      fail(error) {
        // Node.js has no handler for errors of a listener, and would end the process.
        console.error(error)
        if (res.headersSent) res.destroy()
        else sendRecorded(res, failedResponse())
      },
    })
}

function failedResponse() {
  return problemResponse(
    500,
    'The request failed',
    'Send the request again. If it failed before a response was recorded, it will be handled again.',
  )
}

function exchangeOf(req: ParsedRequest): Exchange {
  return {
    handlerArguments: [req],
    callbackArgument: () => req,
    method: req.method ?? '',
    path: req.originalUrl ?? req.url ?? '',
    header: (name) => headerOf(req, name),
    body: async () => {
      const read = req.rawBody ?? req.body
      const isUnread = read === undefined && !req.readableEnded
      return isUnread ? peekBody(req) : bytesOf(read, hasBody(req))
    },
  }
}
