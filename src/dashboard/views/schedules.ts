import { view } from '../view.js'

const mostRows = 200

/** Schedules: when they tick next, and who would run it. */
export const schedules = {
  schedules: view({
    everyMs: 2_000,
    needs: { namespace: 'text' },
    async read({ holdfastOf }, { namespace }) {
      const rows = await (await holdfastOf(namespace)).schedules.list()
      return { rows: rows.slice(0, mostRows), count: rows.length }
    },
  }),
}
