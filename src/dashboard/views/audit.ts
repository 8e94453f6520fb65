import { maxRows, view } from '../view.js'

export const audit = {
  audit: view({
    intervalMs: 2_000,
    read: async ({ audit }) => ({ rows: await audit.latest(maxRows) }),
  }),
}
