import { view } from '../view.js'

const maxRows = 200

/** What visitors of the dashboard did, the latest first. */
export const audit = {
  audit: view({
    intervalMs: 2_000,
    read: async ({ audit }) => ({ rows: await audit.latest(maxRows) }),
  }),
}
