import { maxRows, view } from '../view.js'

export const instances = {
  instances: view({
    intervalMs: 2_000,
    params: { namespace: 'text', search: 'text' },
    read: ({ observer }, only) => observer.fleet.list({ ...only, limit: maxRows }),
  }),

  /** One instance's locks, waits and running work. Null if no instance has this ID. */
  instance: view({
    intervalMs: 2_000,
    needs: { id: 'text' },
    read: ({ observer }, { id }) => observer.fleet.workOf(id),
  }),
}
