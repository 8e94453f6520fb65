import { ClosedError, isInstance, UsageError } from '../base/index.js'
import { version } from '../index.js'
import { assetResponse, pageResponse } from './assets.js'
import { readJson } from './body.js'
import { type AuthenticatedVisitor, authenticate, type RequestSource, refuseCrossSite } from './guard.js'
import { escapeHtml, htmlResponse, jsonResponse } from './headers.js'
import { Streams } from './live.js'
import type { Settings } from './options.js'
import { redactWith } from './redact.js'
import { Refusal } from './refusal.js'
import { errorBody } from './serialize.js'
import { ServedDatabase } from './served-database.js'
import { splitSpec } from './spec.js'
import { parseViewRequest, viewRequest } from './view-requests.js'
import type { ErrorBody, Me } from './wire.js'

/** Matches only the end of the path, because the prefix depends on where the dashboard is mounted. */
const apiPath = /\/api\/(?:(me|live)|(view|sql|act)\/([^/]+))$/
const assetPath = /\/assets\/([^/]+)$/

/** A visitor in one of the databases. */
interface Admission {
  readonly database: ServedDatabase
  readonly visitor: AuthenticatedVisitor
}

type Admit = (database: string | null) => Promise<Admission>

/** Routes and handles requests. */
export class Handler {
  readonly #settings: Settings
  readonly #databases: ReadonlyMap<string | null, ServedDatabase>
  readonly #streams = new Streams()
  #isClosed = false

  constructor(settings: Settings) {
    this.#settings = settings
    const shared = { ...settings, redact: redactWith(settings.redact) }
    this.#databases = new Map(settings.databases.map((one) => [one.name, new ServedDatabase(one, shared)]))
  }

  async handle(request: Request, from: RequestSource): Promise<Response> {
    const url = new URL(request.url)
    const api = apiPath.exec(url.pathname)
    const admit = (database: string | null) => this.#admit(request, from, database)
    try {
      if (api) {
        refuseCrossSite(request)
        return await this.#handleApi(request, url, (api[1] ?? api[2])!, decodeName(api[3]), admit)
      }
      await this.#requireAccess(admit)
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
    await Promise.all([...this.#databases.values()].map((database) => database.close()))
  }

  /**
   * Authenticates the visitor for the database. An unauthenticated visitor cannot find out whether a database with this
   * name exists.
   */
  async #admit(request: Request, from: RequestSource, name: string | null): Promise<Admission> {
    const visitor = await authenticate(request, from, this.#settings.auth, name)
    // Checks again, because close() may have run while auth was pending.
    if (this.#isClosed) throw new ClosedError('The dashboard')
    const database = this.#databases.get(name)
    if (database) return { database, visitor }
    if (name !== null) throw new Refusal(404, 'NOT_FOUND', `This dashboard has no database ${JSON.stringify(name)}`)
    throw new Refusal(400, 'USAGE', 'Expected the name of a database', 'For example: api/view/DATABASE:jobs')
  }

  /** Throws unless the visitor may see at least one database. The page's files contain no data of a database. */
  async #requireAccess(admit: Admit): Promise<void> {
    let refused: unknown
    for (const name of this.#databases.keys()) {
      try {
        await admit(name)
        return
      } catch (error) {
        refused ??= error
      }
    }
    throw refused
  }

  /** Returns all databases that the visitor may see. */
  async #admitToAll(admit: Admit): Promise<readonly Admission[]> {
    const results = await Promise.allSettled([...this.#databases.keys()].map(admit))
    const admitted = results.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
    const [refused] = results.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []))
    if (admitted.length === 0) throw refused
    return admitted
  }

  async #handleApi(request: Request, url: URL, kind: string, spec: string, admit: Admit): Promise<Response> {
    if (kind === 'me') {
      const all = await this.#admitToAll(admit)
      requireMethod(request, 'GET')
      return json(await this.#me(all, url.searchParams.get('database')))
    }
    if (kind === 'live') {
      const specs = url.searchParams.getAll('view').map((text) => ({ text, ...splitSpec(text) }))
      const names = specs.length === 0 ? [...this.#databases.keys()] : specs.map(({ database }) => database)
      const admitted = await Promise.all([...new Set(names)].map(admit))
      requireMethod(request, 'GET')
      const hubs = new Map(admitted.map(({ database }) => [database.name, database.hub]))
      const views = specs.map(({ text, database, rest }) => ({
        spec: text,
        hub: hubs.get(database)!,
        request: parseViewRequest(rest),
      }))
      return this.#streams.open(views, request.signal)
    }
    const { database: name, rest } = splitSpec(spec)
    const { database, visitor } = await admit(name)
    if (kind === 'act') {
      requireMethod(request, 'POST')
      return json(await database.acts.handle(rest, await readJson(request), visitor))
    }
    requireMethod(request, 'GET')
    if (kind === 'sql') return json(await database.statements(rest, url.searchParams))
    const message = await database.hub.read(viewRequest(rest, url.searchParams))
    if (message.kind === 'failure') {
      return jsonResponse(message.error.code === 'USAGE' ? 400 : 503, JSON.stringify({ error: message.error }))
    }
    const view = JSON.stringify(spec + url.search)
    return jsonResponse(200, `{"view":${view},"at":"${message.at.toISOString()}","data":${message.json}}`)
  }

  /** Describes the visitor in the named database, or in the first database. */
  async #me(all: readonly Admission[], name: string | null): Promise<Me> {
    const chosen = name === null ? all[0] : all.find(({ database }) => database.name === name)
    if (!chosen) throw new Refusal(404, 'NOT_FOUND', `This dashboard has no database ${JSON.stringify(name)}`)
    const { database, visitor } = chosen
    const databases = all.flatMap(({ database: { name } }) => (name === null ? [] : [name]))
    const { readOnly } = this.#settings
    return { ...(await database.describe(visitor)), databaseName: database.name, databases, readOnly, version }
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
