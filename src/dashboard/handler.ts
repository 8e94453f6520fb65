import { ClosedError, isInstance, UsageError } from '../base/index.js'
import { version } from '../index.js'
import { ActRequests } from './act-requests.js'
import { assetResponse, pageResponse } from './assets.js'
import { readJson } from './body.js'
import { DashboardContext } from './dashboard-context.js'
import { type AuthenticatedVisitor, authenticate, type RequestSource, refuseCrossSite } from './guard.js'
import { escapeHtml, htmlResponse, jsonResponse } from './headers.js'
import { Hub } from './hub.js'
import { Streams } from './live.js'
import type { Settings } from './options.js'
import { statementListOf } from './psql.js'
import { recordQueries } from './record-queries.js'
import { redactWith } from './redact.js'
import { Refusal } from './refusal.js'
import { errorBody } from './serialize.js'
import { parseViewRequest, viewRequest } from './view-requests.js'
import type { ErrorBody, Me } from './wire.js'

/** Matches only the end of the path, because the prefix depends on where the dashboard is mounted. */
const apiPath = /\/api\/(?:(me|live)|(view|sql|act)\/([^/]+))$/
const assetPath = /\/assets\/([^/]+)$/

/** Routes and handles requests. */
export class Handler {
  readonly #settings: Settings
  readonly #context: DashboardContext
  readonly #hub: Hub
  readonly #streams: Streams
  readonly #acts: ActRequests
  #isClosed = false

  constructor(settings: Settings) {
    this.#settings = settings
    this.#context = new DashboardContext(settings.database, { ...settings, redact: redactWith(settings.redact) })
    this.#hub = new Hub(this.#context)
    this.#streams = new Streams(this.#hub)
    this.#acts = new ActRequests(this.#context, settings.readOnly)
  }

  async handle(request: Request, from: RequestSource): Promise<Response> {
    const url = new URL(request.url)
    const api = apiPath.exec(url.pathname)
    try {
      if (api) refuseCrossSite(request)
      const visitor = await authenticate(request, from, this.#settings.auth)
      // Checks again, because close() may have run while auth was pending.
      if (this.#isClosed) throw new ClosedError('The dashboard')
      if (api) return await this.#handleApi(request, url, (api[1] ?? api[2])!, decodeName(api[3]), visitor)
      requireMethod(request, 'GET', 'HEAD')
      const asset = assetPath.exec(url.pathname)
      if (asset) return assetResponse(decodeName(asset[1]), request.headers.get('accept-encoding'))
      return pageResponse(url.pathname)
    } catch (error) {
      const body = isInstance(error, Refusal)
        ? { code: error.code, message: error.message, hint: error.hint }
        : errorBody(error)
      const status = statusOf(error)
      return api || request.method === 'POST'
        ? jsonResponse(status, JSON.stringify({ error: body }))
        : refusalPage(status, body)
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#streams.close()
    this.#hub.close()
    await this.#context.close()
  }

  async #handleApi(
    request: Request,
    url: URL,
    kind: string,
    name: string,
    visitor: AuthenticatedVisitor,
  ): Promise<Response> {
    if (kind === 'act') {
      requireMethod(request, 'POST')
      return json(await this.#acts.handle(name, await readJson(request), visitor))
    }
    requireMethod(request, 'GET')
    if (kind === 'me') return json(await this.#me(visitor))
    if (kind === 'live') {
      const views = url.searchParams.getAll('view').map((spec) => ({ spec, request: parseViewRequest(spec) }))
      return this.#streams.open(views, request.signal)
    }
    const requested = viewRequest(name, url.searchParams)
    if (kind === 'sql') {
      await this.#context.ready()
      const read = () => requested.view.read(this.#context.viewContext, requested.params)
      return json(statementListOf(await recordQueries(read)))
    }
    const message = await this.#hub.read(requested)
    if (message.kind === 'failure') {
      return jsonResponse(message.error.code === 'USAGE' ? 400 : 503, JSON.stringify({ error: message.error }))
    }
    const view = JSON.stringify(name + url.search)
    return jsonResponse(200, `{"view":${view},"at":"${message.at.toISOString()}","data":${message.json}}`)
  }

  async #me(visitor: AuthenticatedVisitor): Promise<Me> {
    const { readOnly, schema } = this.#settings
    const info = await this.#context.databaseInfo().catch((error) => ({ error: errorBody(error) }))
    const known =
      'error' in info
        ? { server: null, namespaces: [], now: null, error: info.error }
        : { server: info.server, namespaces: info.namespaces, now: info.now.toISOString(), error: null }
    const rights = this.#acts.rightsOf(visitor)
    return { visitor: visitor.name, rights, readOnly, version, schema, database: this.#context.address, ...known }
  }
}

function requireMethod(request: Request, ...methods: string[]): void {
  if (!methods.includes(request.method)) {
    throw new Refusal(405, 'METHOD_NOT_ALLOWED', `Expected ${methods.join(' or ')}, got ${request.method}`)
  }
}

/** Decodes a path segment. If the encoding is invalid, returns an empty name, which matches nothing. */
function decodeName(part: string | undefined): string {
  try {
    return decodeURIComponent(part ?? '')
  } catch {
    return ''
  }
}

function json(answer: object): Response {
  return jsonResponse(200, JSON.stringify(answer))
}

function statusOf(error: unknown): number {
  if (isInstance(error, Refusal)) return error.status
  if (isInstance(error, UsageError)) return 400
  return isInstance(error, ClosedError) || errorBody(error).code === 'DATABASE_UNREACHABLE' ? 503 : 500
}

function refusalPage(status: number, { message, hint }: ErrorBody): Response {
  const paragraphs = [message, hint].filter((text) => text !== null).map((text) => `<p>${escapeHtml(text)}</p>`)
  const head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Holdfast</title>'
  return htmlResponse(status, `${head}<h1>Holdfast</h1>${paragraphs.join('')}</html>\n`)
}
