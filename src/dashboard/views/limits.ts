import { limitStates, maxLimitsSearched } from '../../observe/index.js'
import { maxRows, view } from '../view.js'

const maxPerLimit = 50

export const limits = {
  limits: view({
    intervalMs: 1_000,
    params: { namespace: 'text', search: 'text', all: 'flag' },
    async read({ observer }, { namespace, search, all = false }) {
      const states = all ? limitStates : undefined
      const rows = await observer.limits.list({ namespace, prefix: search, states, limit: maxRows + 1 })
      const searchedRows = (await observer.limits.hasMore()) ? maxLimitsSearched : null
      return { rows: rows.slice(0, maxRows), isMore: rows.length > maxRows, searchedRows }
    },
  }),

  /** One limit with its holders and its waiters. */
  limit: view({
    intervalMs: 1_000,
    needs: { namespace: 'text', name: 'text' },
    read: ({ observer }, { namespace, name }) => observer.limits.find(namespace, name, maxPerLimit),
  }),
}
