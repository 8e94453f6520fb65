import type { AnswerCodec } from '../once/index.js'

/** A response, as it is recorded and replayed: by whatever framework it was made, and whichever replays it. */
export interface RecordedResponse {
  readonly status: number
  /** The text after the status, where it is not the usual one. */
  readonly statusText: string
  /** In order; a name may come several times, as `set-cookie` does. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly body: Uint8Array
}

/** About one connection, not about the response: each replay has its own. */
const connectionHeaders = new Set(['connection', 'keep-alive', 'transfer-encoding', 'upgrade', 'trailer'])

export const responseCodec: AnswerCodec<RecordedResponse> = {
  encode: ({ status, statusText, headers, body }) => ({
    value: JSON.stringify({
      status,
      statusText,
      headers: headers.filter(([name]) => !connectionHeaders.has(name.toLowerCase())),
    }),
    body,
  }),
  decode: ({ value, body }) => ({ ...JSON.parse(value!), body: body ?? new Uint8Array() }),
  // What was refused was not done: the answer stands, and what the handler wrote before it refused is rolled back.
  keepsEffect: ({ status }) => status < 400,
}

export function withHeader(response: RecordedResponse, name: string, value: string): RecordedResponse {
  return { ...response, headers: [...response.headers, [name, value]] }
}

export function jsonResponse(status: number, type: string, body: object, headers: Record<string, string> = {}) {
  return {
    status,
    statusText: '',
    headers: Object.entries({ 'content-type': type, ...headers }),
    body: Buffer.from(JSON.stringify(body)),
  } satisfies RecordedResponse
}

/** A problem as RFC 9457 describes it. */
export function problemResponse(
  status: number,
  title: string,
  detail: string,
  { type = 'about:blank', headers }: { type?: string | undefined; headers?: Record<string, string> | undefined } = {},
) {
  return jsonResponse(status, 'application/problem+json', { type, title, status, detail }, headers)
}
