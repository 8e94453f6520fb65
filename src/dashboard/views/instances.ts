import { view } from '../view.js'

const maxRows = 200

/** Who is there, and what they are at. */
export const instances = {
  instances: view({
    intervalMs: 2_000,
    params: { namespace: 'text', search: 'text' },
    read: ({ observer }, only) => observer.fleet.list({ ...only, limit: maxRows }),
  }),

  /** One instance: what it holds, waits for and runs. Null when there is none of this id. */
  instance: view({
    intervalMs: 2_000,
    needs: { id: 'text' },
    read: ({ observer }, { id }) => observer.fleet.workOf(id),
  }),
}
