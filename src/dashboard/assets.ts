import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { extname } from 'node:path'
import { gzipSync } from 'node:zlib'
import { escapeHtml, headersWith, htmlResponse } from './headers.js'
import { Refusal } from './refusal.js'

/** Beside us in the package; and where the sources themselves are run, what was built last. */
const directories = ['./ui/', '../../dist/dashboard/ui/'].map((path) => new URL(path, import.meta.url))

const types: Record<string, string> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
}

interface Asset {
  readonly type: string
  readonly body: Buffer
  readonly zipped: Buffer
}

interface BuiltPage {
  readonly html: string
  readonly assets: ReadonlyMap<string, Asset>
}

let loadedPage: BuiltPage | undefined

/** The page as it was built, read once. */
function builtPage(): BuiltPage {
  loadedPage ??= loadPage()
  return loadedPage
}

function loadPage(): BuiltPage {
  const directory = directories.find((one) => existsSync(new URL('index.html', one)))
  if (directory === undefined) {
    throw new Refusal(500, 'NOT_BUILT', 'The page of the dashboard has not been built', 'Run `npm run build`.')
  }
  const assets = new Map<string, Asset>()
  for (const name of readdirSync(new URL('assets/', directory))) {
    const type = types[extname(name)]
    if (type === undefined) continue
    const body = readFileSync(new URL(`assets/${name}`, directory))
    assets.set(name, { type, body, zipped: gzipSync(body) })
  }
  return { html: readFileSync(new URL('index.html', directory), 'utf8'), assets }
}

/**
 * The page, which finds everything else below where it was asked for. Told as the last step of the path alone, it is right
 * also behind a proxy that has taken off the first ones.
 */
export function pageResponse(path: string): Response {
  const last = path.slice(path.lastIndexOf('/') + 1)
  const base = last === '' ? './' : `./${last}/`
  return htmlResponse(200, builtPage().html.replace('<head>', `<head>\n    <base href="${escapeHtml(base)}" />`))
}

/** Names change with what is in them, so a copy is good for ever. */
export function assetResponse(name: string, accepted: string | null): Response {
  const asset = builtPage().assets.get(name)
  if (asset === undefined) throw new Refusal(404, 'NOT_FOUND', 'There is no such file')
  const isZipped = /\bgzip\b/.test(accepted ?? '')
  const headers = headersWith({
    'content-type': asset.type,
    'cache-control': 'public, max-age=31536000, immutable',
    vary: 'accept-encoding',
    ...(isZipped ? { 'content-encoding': 'gzip' } : {}),
  })
  return new Response(new Uint8Array(isZipped ? asset.zipped : asset.body), { headers })
}
