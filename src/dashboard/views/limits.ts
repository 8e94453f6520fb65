import { view } from '../view.js'

const mostRows = 200

/** Permits and rates. */
export const limits = {
  limits: view({
    everyMs: 2_000,
    params: { namespace: 'text', prefix: 'text' },
    async read({ observer }, { namespace, prefix }) {
      return { rows: await observer.limits.list({ namespace, prefix, limit: mostRows }) }
    },
  }),
}
