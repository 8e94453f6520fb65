import { Refusal } from './refusal.js'

/** Enough for the input of a job that a visitor enqueues by hand. */
const maxBytes = 131_072

/** Reads the body as JSON. Rejects other content types, because forms on other sites can send only those. */
export async function readJson(request: Request): Promise<unknown> {
  const [type = ''] = (request.headers.get('content-type') ?? '').split(';')
  if (type.trim().toLowerCase() !== 'application/json') {
    throw new Refusal(415, 'NOT_JSON', 'Expected the content-type application/json')
  }
  const text = await readText(request)
  try {
    return JSON.parse(text)
  } catch {
    throw new Refusal(400, 'NOT_JSON', 'Expected the body to be valid JSON')
  }
}

async function readText(request: Request): Promise<string> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of request.body ?? []) {
    bytes += chunk.byteLength
    if (bytes > maxBytes) throw new Refusal(413, 'TOO_LARGE', `Expected a body of at most ${maxBytes} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}
