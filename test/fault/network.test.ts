import { once } from 'node:events'
import net from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { Network } from '../../faults/network.ts'
import { until } from '../setup/facts.js'

// The simulated network of the fault suite. If the network changed the order of the data, the suite would report false violations.
test('the simulated network delivers bytes in the order in which they were sent while its delay changes', async () => {
  const server = net.createServer((socket) => socket.pipe(socket)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const network = await Network.before(`postgres://127.0.0.1:${(server.address() as net.AddressInfo).port}`)
  const client = net.connect(Number(new URL(network.through('postgres://x')).port), '127.0.0.1').setNoDelay()
  const arrived: string[] = []
  client.setEncoding('utf8').on('data', (text: string) => arrived.push(text))
  const sent = Array.from({ length: 400 }, (_, at) => `${at},`)
  for (const [at, text] of sent.entries()) {
    network.delay([0, 22.7, 61, 3.3, 0][at % 5]!)
    client.write(text)
    if (at % 3 === 0) await sleep(1)
  }
  network.delay(0)
  await until('all bytes have arrived', () => arrived.join('').length === sent.join('').length)
  expect(arrived.join('')).toBe(sent.join(''))
  client.destroy()
  await network.close()
  server.close()
})
