import { isUtf8 } from 'node:buffer'
import { deliveryStates } from '../../observe/index.js'
import { maxRows, view } from '../view.js'

export const deliveries = {
  /** The latest deliveries, optionally filtered by key prefix and state. */
  deliveries: view({
    intervalMs: 2_000,
    params: { namespace: 'text', prefix: 'text', state: { oneOf: deliveryStates }, after: 'text' },
    read: ({ observer }, { namespace, prefix, state, after }) =>
      observer.deliveries.search({ namespace, prefix, states: state && [state], limit: maxRows, after }),
  }),

  /** One delivery with its result. Null if the delivery does not exist or has expired. */
  delivery: view({
    intervalMs: 2_000,
    needs: { namespace: 'text', key: 'text' },
    async read({ observer, redact }, { namespace, key }) {
      const found = await observer.deliveries.find(namespace, key)
      if (!found) return { delivery: null }
      const { value, body, ...delivery } = found
      const text = body && isUtf8(body) && !body.includes(0) ? body.toString() : null
      return {
        delivery: {
          ...delivery,
          isValueShown: value !== null,
          value: value === null ? null : redact(JSON.parse(value), { what: 'delivery answer', of: key }),
          // A body that is not valid UTF-8 text is not shown.
          body: text === null ? null : String(redact(text, { what: 'delivery body', of: key }) ?? ''),
        },
      }
    },
  }),
}
