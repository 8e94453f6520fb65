// Asks the server. Addresses are relative, so that it does not matter where the dashboard is mounted.
import type {
  ActName,
  ActParamsOf,
  ActRequest,
  ActResponse,
  ErrorBody,
  ErrorResponse,
  Me,
  ParamsOf,
  PreviewResponse,
  StatementList,
  ViewName,
  ViewSnapshot,
} from './wire.js'

/** What the server refused, or why it did not answer. */
export class ApiError extends Error {
  readonly code: string
  readonly hint: string | null
  /** 0 when there was no answer. */
  readonly status: number

  constructor(failure: ErrorBody, status: number) {
    super(failure.message)
    this.name = 'ApiError'
    this.code = failure.code
    this.hint = failure.hint
    this.status = status
  }
}

/** `jobs?search=mail`: a view and its params in one text, always in the same order. */
export function keyOf(view: string, params: object): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(params).sort(([one], [other]) => (one < other ? -1 : 1))) {
    if (value !== undefined && value !== '') query.set(name, String(value))
  }
  return query.size > 0 ? `${view}?${query}` : view
}

export const api = {
  me: () => request<Me>('api/me'),

  /** The statements that a view asks, ready for psql. */
  sql: async (key: string) => (await request<StatementList>(`api/sql/${key}`)).statements,

  /** A view, once. What should go on being true is for `useView`. */
  view: <Name extends ViewName>(view: Name, params: ParamsOf<Name>) =>
    request<ViewSnapshot<Name>>(`api/view/${keyOf(view, params as object)}`),

  /** What an action would do. */
  preview: async <Name extends ActName>(act: Name, params: ActParamsOf<Name>) =>
    (await request<PreviewResponse>(`api/act/${act}`, { params, preview: true } satisfies ActRequest<Name>))
      .consequence,

  act: async <Name extends ActName>(act: Name, params: ActParamsOf<Name>, reason?: string) =>
    (await request<ActResponse>(`api/act/${act}`, { params, ...(reason ? { reason } : {}) } satisfies ActRequest<Name>))
      .outcome,
}

async function request<Answer>(path: string, body?: object): Promise<Answer> {
  let response: Response
  try {
    response = await fetch(path, {
      ...(body && { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
      cache: 'no-store',
      redirect: 'error',
    })
  } catch {
    throw new ApiError({ code: 'NO_ANSWER', message: 'The server of this dashboard does not answer.', hint: null }, 0)
  }
  const result: unknown = await response.json().catch(() => undefined)
  if (response.ok && result !== undefined) return result as Answer
  throw new ApiError(failureOf(result, response.status), response.status)
}

/** Also a proxy before the server may answer, in its own words. */
function failureOf(result: unknown, status: number): ErrorBody {
  const error = (result as Partial<ErrorResponse> | undefined)?.error
  if (typeof error?.message === 'string') return error
  if (status === 401 || status === 403) {
    return { code: 'FORBIDDEN', message: 'You may not see this.', hint: 'Sign in anew, and reload the page.' }
  }
  return { code: 'UNEXPECTED', message: `The server answered with status ${status}.`, hint: null }
}
