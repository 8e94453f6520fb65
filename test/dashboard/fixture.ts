import { createServer, request as httpRequest, type IncomingHttpHeaders, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'
import { type Dashboard, type DashboardOptions, dashboard } from '../../src/dashboard/index.js'

/** Creates a dashboard and closes it when the test has finished. */
export function board(options: DashboardOptions): Dashboard {
  const made = dashboard(options)
  onTestFinished(() => made.close())
  return made
}

/** Listens until the test has finished. Returns the address. */
export async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Serves the dashboard with node:http. Returns its URL, under a path. */
export async function serve({ node }: Pick<Dashboard, 'node'>, path = '/admin/fleet'): Promise<string> {
  return (await listen(createServer((request, response) => node(request, response)))) + path
}

export interface RawResponse {
  status: number
  headers: IncomingHttpHeaders
  text: string
}

/** Sends a request with any headers. `fetch` does not accept some of them, for example Host. */
export function raw(
  url: string,
  {
    method = 'GET',
    headers = {},
    body = '',
  }: { method?: string; headers?: Record<string, string>; body?: string } = {},
): Promise<RawResponse> {
  return new Promise((resolve, reject) => {
    const made = httpRequest(url, { method, headers, setHost: !('host' in headers) }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (piece: string) => {
        text += piece
      })
      response.on('end', () => resolve({ status: response.statusCode!, headers: response.headers, text }))
    })
    made.on('error', reject).end(body)
  })
}

export interface LiveEvent {
  event: string
  data: { view: string; at?: string; data?: unknown; error?: { code: string } }
}

/** Watches views as an open page does. Returns the events in their order. Leaves when the test has finished. */
export async function watch(base: string, ...views: string[]) {
  const leaving = new AbortController()
  onTestFinished(() => leaving.abort())
  const query = new URLSearchParams(views.map((view): [string, string] => ['view', view]))
  const response = await fetch(`${base}/api/live?${query}`, { signal: leaving.signal })
  const heard: LiveEvent[] = []
  const ended = (async () => {
    let text = ''
    for await (const piece of response.body!.pipeThrough(new TextDecoderStream())) {
      const frames = (text + piece).split('\n\n')
      text = frames.pop()!
      for (const frame of frames) {
        const [, event, data] = /^event: (\w+)\ndata: (.*)$/.exec(frame) ?? []
        if (event) heard.push({ event, data: JSON.parse(data!) })
      }
    }
  })().catch(() => {})
  return { response, heard, ended, leave: () => leaving.abort() }
}

export async function act(base: string, name: string, body: object, headers: Record<string, string> = {}) {
  const response = await fetch(`${base}/api/act/${name}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })
  return { status: response.status, answer: (await response.json()) as unknown }
}
