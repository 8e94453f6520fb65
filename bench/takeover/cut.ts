// Provides a network route to a server that the bench can cut.
import { Network } from '../../faults/network.ts'

/** Opens another address of the same server. `cut` stops the traffic of all connections to this address. */
export async function routeTo(url: string) {
  const network = await Network.before(url)
  return {
    url: network.through(url),
    cut: () => network.cut(['to-server', 'to-client']),
    close: () => network.close(),
  }
}
