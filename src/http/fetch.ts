import { UsageError } from '../base/index.js'
import type { Once } from '../once/index.js'
import { type Exchange, type Policy, respond } from './policy.js'
import type { RecordedResponse } from './response.js'

export function protectFetch<Given extends Request, Rest extends unknown[]>(
  once: Once,
  policy: Policy,
  handler: (request: Given, ...rest: Rest) => Response | Promise<Response>,
): (request: Given, ...rest: Rest) => Promise<Response> {
  return async (request, ...rest) => {
    const response = await respond(once, policy, exchangeOfRequest(request), async () =>
      readResponse(await handler(request, ...rest)),
    )
    return response ? toResponse(response) : handler(request, ...rest)
  }
}

export function exchangeOfRequest(request: Request): Exchange {
  const { pathname, search } = new URL(request.url)
  return {
    handlerArguments: [request],
    // Clones the request, so that a callback can read the body without consuming it.
    callbackArgument: () => request.clone(),
    method: request.method,
    path: pathname + search,
    header: (name) => request.headers.get(name),
    body: async () => new Uint8Array(await request.clone().arrayBuffer()),
  }
}

export async function readResponse(response: Response): Promise<RecordedResponse> {
  if (response.type === 'error') {
    throw new UsageError(
      'Expected the handler to return a response with a status, got Response.error()',
      'Throw an error, or return a response with status 500.',
    )
  }
  return {
    status: response.status,
    statusText: response.statusText,
    headers: [...response.headers],
    body: new Uint8Array(await response.arrayBuffer()),
  }
}

/** Statuses that do not allow a body, not even an empty one. */
const statusesWithoutBody = new Set([204, 205, 304])

export function toResponse({ status, statusText, headers, body }: RecordedResponse): Response {
  return new Response(statusesWithoutBody.has(status) ? null : (body as Uint8Array<ArrayBuffer>), {
    status,
    statusText,
    headers: headers as [string, string][],
  })
}
