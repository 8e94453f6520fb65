import type { IncomingMessage } from 'node:http'
import { type ActName, actNames } from '../acts/index.js'
import { describe, HoldfastError, isInstance } from '../base/index.js'
import { type Auth, readVisitor } from './options.js'
import { Refusal } from './refusal.js'

export interface AuthenticatedVisitor {
  readonly name: string
  readonly rights: readonly ActName[]
}

/** Where a request came from, as far as that is known beside what it says itself. */
export interface RequestSource {
  /** The address at the other end of the connection. */
  readonly remoteAddress?: string | undefined
  /** The request as Node.js made it. */
  readonly incoming?: IncomingMessage | undefined
}

/** Who comes. Throws a refusal for whoever may not. */
export async function authenticate(
  request: Request,
  from: RequestSource,
  auth: Auth | undefined,
): Promise<AuthenticatedVisitor> {
  if (auth === undefined) {
    requireLoopback(request, from)
    return { name: 'loopback', rights: actNames }
  }
  let visitor: AuthenticatedVisitor | null
  try {
    visitor = readVisitor(await auth(request, from.incoming))
  } catch (error) {
    // What the hook throws may tell too much to somebody who is nobody yet; a mistake in what it answered is our own words.
    const [message, hint] = isInstance(error, HoldfastError)
      ? [error.message, error.hint]
      : ['auth has thrown an error']
    throw new Refusal(500, 'AUTH_FAILED', message, hint ?? 'Look at the function auth that was given to dashboard().')
  }
  if (visitor === null) throw new Refusal(403, 'FORBIDDEN', 'You may not see this dashboard', 'Sign in first.')
  return visitor
}

const proxyHeaders = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip', 'via']
const loopbackOnly = 'This dashboard has no auth, so it answers only to its own machine'
const hint = 'Give dashboard({ auth }) a function that says who comes.'

/** Without auth: from this machine, by a name of this machine, and with nobody between who may have let in the world. */
function requireLoopback(request: Request, { remoteAddress }: RequestSource): void {
  if (remoteAddress === undefined) {
    throw new Refusal(
      403,
      'AUTH_REQUIRED',
      `${loopbackOnly}, and where this request comes from is not known`,
      `${hint} Or tell where it comes from: board.fetch(request, { remoteAddress }).`,
    )
  }
  if (!isLoopbackAddress(remoteAddress)) throw new Refusal(403, 'AUTH_REQUIRED', loopbackOnly, hint)
  const proxy = proxyHeaders.find((name) => request.headers.has(name))
  if (proxy) {
    throw new Refusal(
      403,
      'AUTH_REQUIRED',
      `${loopbackOnly}, and this request came through a proxy (it has ${proxy})`,
      hint,
    )
  }
  // Any site can have its name lead here; the browser then takes this page for a part of it.
  if (!isLoopbackName(hostOf(request))) {
    throw new Refusal(403, 'AUTH_REQUIRED', `${loopbackOnly}, by a name such as localhost or 127.0.0.1`, hint)
  }
  // A proxy may hide itself, but the browser still says which site it believes to be on.
  const origin = request.headers.get('origin')
  if (origin !== null && !isLoopbackName(originHost(origin) ?? '')) {
    throw new Refusal(403, 'AUTH_REQUIRED', `${loopbackOnly}, and this request comes from ${describe(origin)}`, hint)
  }
}

function isLoopbackAddress(address: string): boolean {
  return address === '::1' || /^(::ffff:)?127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/i.test(address)
}

function isLoopbackName(host: string): boolean {
  const name = host.replace(/:\d{1,5}$/, '').toLowerCase()
  return name === 'localhost' || name.endsWith('.localhost') || name === '[::1]' || isLoopbackAddress(name)
}

/** Whom the request is for, without the port where that is the usual one. */
function hostOf({ headers, url }: Request): string {
  const { protocol, host } = new URL(url)
  const address = `${protocol}//${headers.get('host') ?? host}`
  return URL.canParse(address) ? new URL(address).host : ''
}

/** Refuses what another site lets the browser of a visitor ask, who has the rights and does not know of it. */
export function refuseCrossSite(request: Request): void {
  const site = request.headers.get('sec-fetch-site')
  const origin = request.headers.get('origin')
  if (site !== null) {
    if (site === 'same-origin' || (site === 'none' && request.method === 'GET')) return
  } else if (origin === null || originHost(origin) === hostOf(request)) return
  throw new Refusal(403, 'CROSS_SITE', 'Requests from other sites are not answered')
}

function originHost(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined
}
