import { view } from '../view.js'

const mostRows = 200

/** Who is there. */
export const instances = {
  instances: view({
    everyMs: 2_000,
    params: { namespace: 'text' },
    async read({ observer }, { namespace }) {
      const all = await observer.instances()
      const rows = all.filter((instance) => namespace === undefined || instance.namespace === namespace)
      return { rows: rows.slice(0, mostRows), count: rows.length }
    },
  }),
}
