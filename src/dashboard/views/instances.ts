import { view } from '../view.js'

const mostRows = 200

/** Who is there. */
export const instances = {
  instances: view({
    everyMs: 2_000,
    async read({ observer }) {
      const rows = await observer.instances()
      return { rows: rows.slice(0, mostRows), count: rows.length }
    },
  }),
}
