// A way to a server that can be cut, for the workers that go by it.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

const program = fileURLToPath(new URL('./proxy.js', import.meta.url))

/** Another address of the same server, and how to cut all who use it. */
export async function wayTo(url) {
  const child = fork(program, [url])
  const [port] = await once(child, 'message')
  const way = new URL(url)
  way.hostname = '127.0.0.1'
  way.port = String(port)
  return { url: way.href, cut: () => child.kill('SIGSTOP'), close: () => child.kill('SIGKILL') }
}
