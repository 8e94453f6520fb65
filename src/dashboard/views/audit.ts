import { view } from '../view.js'

const mostRows = 200

/** What visitors of the dashboard did, the latest first. */
export const audit = {
  audit: view({
    everyMs: 2_000,
    read: async ({ audit }) => ({ rows: await audit.latest(mostRows) }),
  }),
}
