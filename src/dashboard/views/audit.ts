import { view } from '../view.js'

const maxRows = 200

export const audit = {
  audit: view({
    intervalMs: 2_000,
    read: async ({ audit }) => ({ rows: await audit.latest(maxRows) }),
  }),
}
