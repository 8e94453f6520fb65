// Requests to the server. The URLs are relative, so the dashboard can be mounted under any path.
import { currentDatabase } from './routes.js'
import type {
  ActName,
  ActParamsOf,
  ActRequest,
  ActResponse,
  ErrorBody,
  ErrorResponse,
  Me,
  PreviewResponse,
  StatementList,
} from './wire.js'

/** Error for a request that the server rejected or did not respond to. */
export class ApiError extends Error {
  readonly code: string
  readonly hint: string | null
  /** HTTP status. 0 if there was no response. */
  readonly status: number

  constructor(failure: ErrorBody, status: number) {
    super(failure.message)
    this.name = 'ApiError'
    this.code = failure.code
    this.hint = failure.hint
    this.status = status
  }
}

/** Returns the name of a view or an action in requests. Example: `eu:jobs`. */
function specOf(name: string, database: string | undefined): string {
  return database === undefined ? name : `${database}:${name}`
}

/** Returns a view's key: its database, its name and its sorted parameters. Example: `eu:jobs?search=mail`. */
export function keyOf(view: string, params: object, database = currentDatabase()): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(params).sort(([one], [other]) => (one < other ? -1 : 1))) {
    if (value !== undefined && value !== '') query.set(name, String(value))
  }
  const spec = specOf(view, database)
  return query.size > 0 ? `${spec}?${query}` : spec
}

export const api = {
  /** Describes the visitor in a database. The default is the current database, or else the first database. */
  me: (database = currentDatabase()) =>
    request<Me>(database === undefined ? 'api/me' : `api/me?${new URLSearchParams({ database })}`),

  /** Returns a view's SQL statements, with values, so that they can be pasted into psql. */
  sql: async (key: string) => (await request<StatementList>(`api/sql/${key}`)).statements,

  /** Returns an action's consequence without running the action. */
  preview: async <Name extends ActName>(act: Name, params: ActParamsOf<Name>) =>
    (await request<PreviewResponse>(actPath(act), { params, preview: true } satisfies ActRequest<Name>)).consequence,

  act: async <Name extends ActName>(act: Name, params: ActParamsOf<Name>, reason?: string) =>
    (await request<ActResponse>(actPath(act), { params, ...(reason ? { reason } : {}) } satisfies ActRequest<Name>))
      .outcome,
}

function actPath(act: ActName): string {
  return `api/act/${specOf(act, currentDatabase())}`
}

async function request<Body>(path: string, body?: object): Promise<Body> {
  let response: Response
  try {
    response = await fetch(path, {
      ...(body && { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
      cache: 'no-store',
      redirect: 'error',
    })
  } catch {
    throw new ApiError({ code: 'NO_ANSWER', message: 'The dashboard server is not responding.', hint: null }, 0)
  }
  const result: unknown = await response.json().catch(() => undefined)
  if (response.ok && result !== undefined) return result as Body
  throw new ApiError(failureOf(result, response.status), response.status)
}

/** Converts an unsuccessful response to an error. A proxy's response may have the proxy's own format. */
function failureOf(result: unknown, status: number): ErrorBody {
  const error = (result as Partial<ErrorResponse> | undefined)?.error
  if (typeof error?.message === 'string') return error
  if (status === 401 || status === 403) {
    return {
      code: 'FORBIDDEN',
      message: 'You do not have access to this dashboard.',
      hint: 'Sign in again, and then reload the page.',
    }
  }
  return {
    code: 'UNEXPECTED',
    message: `The server returned an unexpected response with status ${status}.`,
    hint: null,
  }
}
