import type { Once } from '../once/index.js'
import { exchangeOfRequest, readResponse, toResponse } from './fetch.js'
import { type Exchange, type Policy, respond } from './policy.js'

/** The part of Hono's context that Holdfast uses. */
export interface HonoContext {
  readonly req: { readonly raw: Request; arrayBuffer(): Promise<ArrayBuffer> }
  get res(): Response
  set res(response: Response | undefined)
}

export function protectHono(once: Once, policy: Policy) {
  return async (context: HonoContext, next: () => Promise<void>): Promise<Response | undefined> => {
    let isHandled = false
    try {
      const response = await respond(once, policy, exchangeOf(context), async () => {
        isHandled = true
        await next()
        return readResponse(context.res)
      })
      if (response === undefined) {
        await next()
        return undefined
      }
      if (!isHandled) return toResponse(response)
      // Replaces the response, because its body was read. Clears the old response first, because Hono would merge its
      // headers.
      context.res = undefined
      context.res = toResponse(response)
      return undefined
    } catch (error) {
      if (isHandled) context.res = undefined
      throw error
    }
  }
}

function exchangeOf(context: HonoContext): Exchange {
  const { raw } = context.req
  return {
    ...exchangeOfRequest(raw),
    handlerArguments: [context, raw],
    callbackArgument: () => context,
    // Hono caches a body that has already been read.
    body: async () => new Uint8Array(await (raw.bodyUsed ? context.req : raw.clone()).arrayBuffer()),
  }
}
