// A way to a server that can be cut, for the workers that go by it.
import { Network } from '../../faults/network.ts'

/** Another address of the same server, and how to cut all who use it. */
export async function wayTo(url: string) {
  const network = await Network.before(url)
  return {
    url: network.through(url),
    cut: () => network.cut(['to-server', 'to-client']),
    close: () => network.close(),
  }
}
