import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Once } from '../once/index.js'
import { bytesOf, hasBody, headerOf, peekBody, protectNode, unknownBody } from './node.js'
import type { Exchange, Policy } from './policy.js'
import { problemResponse } from './response.js'
import { sendRecorded } from './response-capture.js'

/** A request with the properties that body parsers and routers add. */
type ParsedRequest = IncomingMessage & {
  body?: unknown
  rawBody?: unknown
  /** Uploaded file or files. */
  file?: unknown
  files?: object
  originalUrl?: string
}

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
      if (isUnread(req)) return peekBody(req)
      // Parsers such as multer store uploaded files separately from the other fields, and often on disk.
      const isUpload = req.file !== undefined || Object.keys(req.files ?? {}).length > 0
      if (isUpload && !req.rawBody) throw unknownBody('uploaded files', 'request.body does not contain the files')
      return bytesOf(req.rawBody ?? req.body, hasBody(req))
    },
  }
}

/**
 * Whether no parser has read the body. The parsers of Express 4 set `request.body` to an empty object before they check
 * the content type, and leave bodies of other types unread.
 */
function isUnread(req: ParsedRequest): boolean {
  const read = req.rawBody ?? req.body
  if (req.readableEnded) return false
  if (read === undefined) return true
  const isEmptyObject = read?.constructor === Object && Object.keys(read).length === 0
  return isEmptyObject && hasBody(req) && !req.readableDidRead
}
