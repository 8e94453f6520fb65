import type { AnswerCodec } from '../once/index.js'

/** Recorded response, independent of the framework. */
export interface RecordedResponse {
  readonly status: number
  /** Status text, if it differs from the default. */
  readonly statusText: string
  /** Headers in order. A name may occur several times, such as `set-cookie`. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly body: Uint8Array
}

/** Connection headers, which are not replayed. */
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
  // A rejected request must have no effect, so the handler's writes are rolled back although the response is recorded.
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

/** Returns a problem response (RFC 9457). */
export function problemResponse(
  status: number,
  title: string,
  detail: string,
  { type = 'about:blank', headers }: { type?: string | undefined; headers?: Record<string, string> | undefined } = {},
) {
  return jsonResponse(status, 'application/problem+json', { type, title, status, detail }, headers)
}
