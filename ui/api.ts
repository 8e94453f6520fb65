// Asks the server. Addresses are relative, so that it does not matter where the dashboard is mounted.
import type {
  ActAsked,
  Acted,
  ActName,
  ActParamsOf,
  ErrorSaid,
  Me,
  ParamsOf,
  Picture,
  Previewed,
  Refused,
  SqlSaid,
  ViewName,
} from './wire.js'

/** What the server refused, or why it did not answer. */
export class ApiError extends Error {
  readonly code: string
  readonly hint: string | null
  /** 0 when there was no answer. */
  readonly status: number

  constructor(failure: ErrorSaid, status: number) {
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
  me: () => ask<Me>('api/me'),

  /** The statements that a view asks, ready for psql. */
  sql: async (key: string) => (await ask<SqlSaid>(`api/sql/${key}`)).statements,

  /** A view, once. What should go on being true is for `useView`. */
  view: <Name extends ViewName>(view: Name, params: ParamsOf<Name>) =>
    ask<Picture<Name>>(`api/view/${keyOf(view, params as object)}`),

  /** What an action would do. */
  preview: async <Name extends ActName>(act: Name, params: ActParamsOf<Name>) =>
    (await ask<Previewed>(`api/act/${act}`, { params, preview: true } satisfies ActAsked<Name>)).consequence,

  act: async <Name extends ActName>(act: Name, params: ActParamsOf<Name>, reason?: string) =>
    (await ask<Acted>(`api/act/${act}`, { params, ...(reason ? { reason } : {}) } satisfies ActAsked<Name>)).outcome,
}

async function ask<Answer>(path: string, body?: object): Promise<Answer> {
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
  const answer: unknown = await response.json().catch(() => undefined)
  if (response.ok && answer !== undefined) return answer as Answer
  throw new ApiError(failureOf(answer, response.status), response.status)
}

/** Also a proxy before the server may answer, in its own words. */
function failureOf(answer: unknown, status: number): ErrorSaid {
  const error = (answer as Partial<Refused> | undefined)?.error
  if (typeof error?.message === 'string') return error
  if (status === 401 || status === 403) {
    return { code: 'FORBIDDEN', message: 'You may not see this.', hint: 'Sign in anew, and reload the page.' }
  }
  return { code: 'UNEXPECTED', message: `The server answered with status ${status}.`, hint: null }
}
