import { ClosedError, isInstance, UsageError } from '../base/index.js'
import { version } from '../index.js'
import { Acting } from './acting.js'
import { assetResponse, pageResponse } from './assets.js'
import { readJson } from './body.js'
import { Ground } from './ground.js'
import { type Admitted, admit, type From, refuseCrossSite } from './guard.js'
import { escapeHtml, htmlResponse, jsonResponse } from './headers.js'
import { Hub } from './hub.js'
import { Streams } from './live.js'
import type { Settings } from './options.js'
import { overhear } from './overhear.js'
import { psqlOf } from './psql.js'
import { questionAs, questionOf } from './questions.js'
import { redactWith } from './redact.js'
import { Refusal } from './refusal.js'
import { saidOf } from './said.js'
import type { ErrorSaid, Me } from './wire.js'

/** What is asked for, by the end of the path: where the rest of it leads is the business of who mounted us. */
const apiPath = /\/api\/(?:(me|live)|(view|sql|act)\/([^/]+))$/
const assetPath = /\/assets\/([^/]+)$/

/** Answers requests. */
export class Handler {
  readonly #settings: Settings
  readonly #ground: Ground
  readonly #hub: Hub
  readonly #streams: Streams
  readonly #acting: Acting
  #isClosed = false

  constructor(settings: Settings) {
    this.#settings = settings
    this.#ground = new Ground(settings.database, settings.schema, redactWith(settings.redact))
    this.#hub = new Hub(this.#ground)
    this.#streams = new Streams(this.#hub)
    this.#acting = new Acting(this.#ground, settings.readOnly)
  }

  async answer(request: Request, from: From): Promise<Response> {
    const url = new URL(request.url)
    const api = apiPath.exec(url.pathname)
    try {
      if (api) refuseCrossSite(request)
      const visitor = await admit(request, from, this.#settings.auth)
      // To find out who it is may take a while.
      if (this.#isClosed) throw new ClosedError('The dashboard')
      if (api) return await this.#answerApi(request, url, (api[1] ?? api[2])!, nameIn(api[3]), visitor)
      allow(request, 'GET', 'HEAD')
      const asset = assetPath.exec(url.pathname)
      if (asset) return assetResponse(nameIn(asset[1]), request.headers.get('accept-encoding'))
      return pageResponse(url.pathname)
    } catch (error) {
      const said = isInstance(error, Refusal)
        ? { code: error.code, message: error.message, hint: error.hint }
        : saidOf(error)
      const status = statusOf(error)
      return api || request.method === 'POST'
        ? jsonResponse(status, JSON.stringify({ error: said }))
        : refusalPage(status, said)
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#streams.close()
    this.#hub.close()
    await this.#ground.close()
  }

  async #answerApi(request: Request, url: URL, kind: string, name: string, visitor: Admitted): Promise<Response> {
    if (kind === 'act') {
      allow(request, 'POST')
      return json(await this.#acting.act(name, await readJson(request), visitor))
    }
    allow(request, 'GET')
    if (kind === 'me') return json(await this.#me(visitor))
    if (kind === 'live') {
      const wanted = url.searchParams.getAll('view').map((as) => ({ as, question: questionAs(as) }))
      return this.#streams.open(wanted, request.signal)
    }
    const question = questionOf(name, url.searchParams)
    if (kind === 'sql') {
      await this.#ground.ready()
      return json(psqlOf(await overhear(() => question.view.read(this.#ground.asking, question.params))))
    }
    const told = await this.#hub.once(question)
    if (told.kind === 'trouble') {
      return jsonResponse(told.error.code === 'USAGE' ? 400 : 503, JSON.stringify({ error: told.error }))
    }
    return jsonResponse(
      200,
      `{"view":${JSON.stringify(name + url.search)},"at":"${told.at.toISOString()}","data":${told.json}}`,
    )
  }

  async #me(visitor: Admitted): Promise<Me> {
    const { readOnly, schema } = this.#settings
    const about = await this.#ground.about().catch((error) => ({ trouble: saidOf(error) }))
    const known =
      'trouble' in about
        ? { server: null, namespaces: [], now: null, trouble: about.trouble }
        : { server: about.server, namespaces: about.namespaces, now: about.now.toISOString(), trouble: null }
    const rights = this.#acting.rightsOf(visitor)
    return { visitor: visitor.name, rights, readOnly, version, schema, database: this.#ground.address, ...known }
  }
}

function allow(request: Request, ...methods: string[]): void {
  if (!methods.includes(request.method)) {
    throw new Refusal(405, 'METHOD_NOT_ALLOWED', `Expected ${methods.join(' or ')}, got ${request.method}`)
  }
}

/** A part of a path. What cannot be decoded is the name of nothing. */
function nameIn(part: string | undefined): string {
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
  return isInstance(error, ClosedError) || saidOf(error).code === 'DATABASE_UNREACHABLE' ? 503 : 500
}

function refusalPage(status: number, { message, hint }: ErrorSaid): Response {
  const said = [message, hint].filter((text) => text !== null).map((text) => `<p>${escapeHtml(text)}</p>`)
  return htmlResponse(
    status,
    `<!doctype html><html lang="en"><meta charset="utf-8"><title>Holdfast</title><h1>Holdfast</h1>${said.join('')}</html>\n`,
  )
}
