/** Permits only what the page needs: no inline scripts or styles, no other origins, no embedding in a frame. */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'self'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

const always = {
  'content-security-policy': policy,
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=(), payment=(), usb=()',
}

/**
 * Returns the headers for a response, which is not cached unless `more` contains a different `cache-control` header.
 */
export function headersWith(more: Record<string, string>): Headers {
  return new Headers({ ...always, 'cache-control': 'no-store', ...more })
}

export function jsonResponse(status: number, json: string): Response {
  return new Response(json, { status, headers: headersWith({ 'content-type': 'application/json; charset=utf-8' }) })
}

export function htmlResponse(status: number, html: string): Response {
  return new Response(html, { status, headers: headersWith({ 'content-type': 'text/html; charset=utf-8' }) })
}

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}
