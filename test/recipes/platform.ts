// Simulates a platform for functions: loads the functions once, and calls them for each request.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

const functions = await import(process.argv[2]!)

// After a freeze, the clock shows that an hour has passed.
process.on('SIGCONT', () => {
  const now = performance.now.bind(performance)
  performance.now = () => now() + 3_600_000
})

const server = createServer(async (request, response) => {
  const { method, url, headers } = request
  const body = await text(request)
  if (url === '/work') {
    await functions.work(JSON.parse(body))
    return response.end()
  }
  const requestContext = { domainName: 'shop.example', http: { method } }
  const event = {
    rawPath: url,
    rawQueryString: '',
    headers,
    body: Buffer.from(body).toString('base64'),
    isBase64Encoded: true,
    requestContext,
  }
  const result = await functions
    .handler(event)
    .catch((error: Error) => ({ statusCode: 500, body: JSON.stringify(String(error.stack)) }))
  response.writeHead(result.statusCode, result.headers).end(result.body)
})
server.listen(0, '127.0.0.1', () => console.log(`listening on ${(server.address() as AddressInfo).port}`))
