import { view } from '../view.js'

const mostActions = 100

/** Who is there, what they are at, and what visitors did. */
export const instances = {
  instances: view({
    everyMs: 2_000,
    params: { namespace: 'text', search: 'text' },
    read: ({ observer }, only) => observer.fleet.list(only),
  }),

  /** One instance: what it holds, waits for and runs. Null when there is none of this id. */
  instance: view({
    everyMs: 2_000,
    needs: { id: 'text' },
    read: ({ observer }, { id }) => observer.fleet.workOf(id),
  }),

  /** What visitors of the dashboard did, the latest first. */
  audit: view({
    everyMs: 5_000,
    async read({ observer }) {
      return { rows: await observer.fleet.audit(mostActions) }
    },
  }),
}
