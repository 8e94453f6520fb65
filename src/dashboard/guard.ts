import type { IncomingMessage } from 'node:http'
import { actNames } from '../acts/index.js'
import { describe, HoldfastError, isInstance } from '../base/index.js'
import { type Auth, readVisitor, type Visitor } from './options.js'
import { Refusal } from './refusal.js'

export type AuthenticatedVisitor = NonNullable<ReturnType<typeof readVisitor>>

/** Information about a request's sender, taken from the connection and not from the request's headers. */
export interface RequestSource {
  /** IP address of the connection's peer. */
  readonly remoteAddress?: string | undefined
  /** Node.js's original request object. */
  readonly incoming?: IncomingMessage | undefined
}

/** Returns the visitor. Throws a refusal if the request is not permitted. */
export async function authenticate(
  request: Request,
  from: RequestSource,
  auth: Auth | undefined,
  database: string | null,
): Promise<AuthenticatedVisitor> {
  if (auth === undefined) {
    requireLoopback(request, from)
    return { name: 'loopback', rights: actNames }
  }
  let given: Visitor | null
  try {
    given = await auth(request, from.incoming, database ?? undefined)
  } catch {
    // The client is not authenticated, and an error that auth throws may contain secrets. This includes Holdfast's own
    // errors, which contain addresses.
    throw authFailed()
  }
  let visitor: AuthenticatedVisitor | null
  try {
    visitor = readVisitor(given)
  } catch (error) {
    throw isInstance(error, HoldfastError) ? authFailed(error.message, error.hint) : authFailed()
  }
  if (visitor === null)
    throw new Refusal(403, 'FORBIDDEN', 'You do not have access to this dashboard', 'Sign in first.')
  return visitor
}

function authFailed(
  message = 'auth threw an error',
  hint = 'Check the auth function that you passed to dashboard().',
): Refusal {
  return new Refusal(500, 'AUTH_FAILED', message, hint)
}

const proxyHeaders = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip', 'via']
const loopbackOnly = 'This dashboard has no auth function, so it accepts only requests from its own machine'
const authHint = 'Pass a function that authenticates visitors: dashboard({ auth }).'

/** Without `auth`: refuses requests from another machine, through a proxy, or with another machine's host name. */
function requireLoopback(request: Request, { remoteAddress }: RequestSource): void {
  const refusal = (reason = '', hint = '') => new Refusal(403, 'AUTH_REQUIRED', loopbackOnly + reason, authHint + hint)
  if (remoteAddress === undefined) {
    throw refusal(
      ". The client's address is unknown",
      " Or pass the client's address: board.fetch(request, { remoteAddress }).",
    )
  }
  if (!isLoopbackAddress(remoteAddress)) throw refusal()
  const proxy = proxyHeaders.find((name) => request.headers.has(name))
  if (proxy) throw refusal(`. This request came through a proxy (it has the header ${proxy})`)
  // Any site can make its own hostname resolve to this machine. The browser would then treat this page as part of that
  // site.
  if (!isLoopbackName(hostOf(request)))
    throw refusal('. The host of the request must be localhost or a loopback address such as 127.0.0.1')
  // Some proxies add no header, but the browser still sends the address of the visited site as the origin.
  const origin = request.headers.get('origin')
  if (origin !== null && !isLoopbackName(originHost(origin) ?? '')) {
    throw refusal(`. This request comes from the origin ${describe(origin)}`)
  }
}

function isLoopbackAddress(address: string): boolean {
  return address === '::1' || /^(::ffff:)?127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/i.test(address)
}

function isLoopbackName(host: string): boolean {
  const name = host.replace(/:\d{1,5}$/, '').toLowerCase()
  return name === 'localhost' || name.endsWith('.localhost') || name === '[::1]' || isLoopbackAddress(name)
}

/** Returns the request's host, without a default port. */
function hostOf({ headers, url }: Request): string {
  const { protocol, host } = new URL(url)
  const address = `${protocol}//${headers.get('host') ?? host}`
  return URL.canParse(address) ? new URL(address).host : ''
}

/** Refuses cross-site requests, which another site sends through a visitor's browser to use the visitor's rights. */
export function refuseCrossSite(request: Request): void {
  const site = request.headers.get('sec-fetch-site')
  const origin = request.headers.get('origin')
  if (site !== null) {
    if (site === 'same-origin' || (site === 'none' && request.method === 'GET')) return
  } else if (origin === null || originHost(origin) === hostOf(request)) return
  throw new Refusal(403, 'CROSS_SITE', 'Requests from other sites are refused')
}

function originHost(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined
}
