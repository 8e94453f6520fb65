import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { extname } from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import { escapeHtml, headersWith, htmlResponse } from './headers.js'
import { Refusal } from './refusal.js'

/** Locations of the built page: one in the package, and one for running the source files directly. */
const directories = ['./ui/', '../../dist/dashboard/ui/'].map((path) => new URL(path, import.meta.url))

const types: Record<string, string> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
}

interface Asset {
  readonly type: string
  readonly body: Buffer
  /** Bodies by content encoding. Browsers accept Brotli over HTTPS and from this machine. */
  readonly compressed: Readonly<Record<'br' | 'gzip', Buffer>>
}

let loadedPage: ReturnType<typeof loadPage> | undefined

function builtPage() {
  loadedPage ??= loadPage()
  return loadedPage
}

function loadPage() {
  const directory = directories.find((one) => existsSync(new URL('index.html', one)))
  if (directory === undefined) {
    throw new Refusal(500, 'NOT_BUILT', 'The dashboard page has not been built', 'Run `npm run build`.')
  }
  const assets = new Map<string, Asset>()
  for (const name of readdirSync(new URL('assets/', directory))) {
    const type = types[extname(name)]
    if (type === undefined) continue
    const body = readFileSync(new URL(`assets/${name}`, directory))
    assets.set(name, { type, body, compressed: compress(body) })
  }
  return { html: readFileSync(new URL('index.html', directory), 'utf8'), assets }
}

/** Compresses all assets within milliseconds. The highest quality of Brotli would take a second. */
export function compress(body: Buffer): Asset['compressed'] {
  return {
    br: brotliCompressSync(body, { params: { [constants.BROTLI_PARAM_QUALITY]: 6 } }),
    gzip: gzipSync(body),
  }
}

/** Returns the page. Its relative base URL is also correct behind a proxy that removes a path prefix. */
export function pageResponse(path: string): Response {
  const last = path.slice(path.lastIndexOf('/') + 1)
  const base = last === '' ? './' : `./${last}/`
  return htmlResponse(200, builtPage().html.replace('<head>', `<head>\n    <base href="${escapeHtml(base)}" />`))
}

/** Returns one of the page's files. File names contain a content hash, so browsers may cache the file forever. */
export function assetResponse(name: string, accepted: string | null): Response {
  const asset = builtPage().assets.get(name)
  if (asset === undefined) throw new Refusal(404, 'NOT_FOUND', 'This file does not exist')
  const encoding = (['br', 'gzip'] as const).find((one) => new RegExp(`\\b${one}\\b`).test(accepted ?? ''))
  const headers = headersWith({
    'content-type': asset.type,
    'cache-control': 'public, max-age=31536000, immutable',
    vary: 'accept-encoding',
    ...(encoding ? { 'content-encoding': encoding } : {}),
  })
  return new Response(new Uint8Array(encoding ? asset.compressed[encoding] : asset.body), { headers })
}
