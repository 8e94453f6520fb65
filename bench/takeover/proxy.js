// A way to a server that can be cut: frozen, it forwards nothing and closes nothing, as a network that drops all packets.
import { connect, createServer } from 'node:net'

const { hostname, port } = new URL(process.argv[2])
const server = createServer((from) => {
  const to = connect(Number(port), hostname)
  for (const [one, other] of [
    [from, to],
    [to, from],
  ]) {
    one.on('error', () => other.destroy())
    one.pipe(other)
  }
})
server.listen(0, '127.0.0.1', () => process.send(server.address().port))
