import { deliveryStates } from '../../observe/index.js'
import { view } from '../view.js'

const mostRows = 200

/** What is run once. */
export const deliveries = {
  deliveries: view({
    everyMs: 2_000,
    params: { namespace: 'text', state: { oneOf: deliveryStates } },
    async read({ observer }, { namespace, state }) {
      const states = state && [state]
      return { rows: await observer.deliveries.latest({ namespace, states, limit: mostRows }) }
    },
  }),
}
