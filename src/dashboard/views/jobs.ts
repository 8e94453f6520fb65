import { jobStates } from '../../observe/index.js'
import { view } from '../view.js'

const mostRows = 200

/** Queues and the jobs in them. */
export const jobs = {
  queues: view({
    everyMs: 2_000,
    params: { namespace: 'text' },
    async read({ observer }, { namespace }) {
      const rows = await observer.queues({ namespace })
      return { rows: rows.slice(0, mostRows), count: rows.length }
    },
  }),

  jobs: view({
    everyMs: 2_000,
    params: { namespace: 'text', queue: 'text', kind: 'text', state: { oneOf: jobStates } },
    async read({ observer }, { namespace, queue, kind, state }) {
      const states = state && [state]
      const rows = await observer.jobs({ namespace, queue, kind, states, limit: mostRows })
      return { rows }
    },
  }),
}
