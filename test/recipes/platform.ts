// What a platform does with functions: loads them once, and calls them for each request.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

const functions = await import(process.argv[2]!)

// It was frozen, and finds that an hour has gone by.
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
  const answer = await functions
    .handler(event)
    .catch((error: Error) => ({ statusCode: 500, body: JSON.stringify(String(error.stack)) }))
  response.writeHead(answer.statusCode, answer.headers).end(answer.body)
})
server.listen(0, '127.0.0.1', () => console.log(`listening on ${(server.address() as AddressInfo).port}`))
