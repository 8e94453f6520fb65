import { view } from '../view.js'

/** What is now: the fleet at a glance, and who waits for whom. */
export const now = {
  overview: view({
    everyMs: 1_000,
    params: { namespace: 'text' },
    async read({ observer }, { namespace }) {
      // The moment is told with every answer.
      const { at: _, ...overview } = await observer.overview({ namespace })
      return overview
    },
  }),

  graph: view({
    everyMs: 2_000,
    params: { namespace: 'text' },
    read: ({ observer }, { namespace }) => observer.graph({ namespace }),
  }),
}
