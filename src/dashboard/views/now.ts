import type { Observer } from '../../observe/index.js'
import { view } from '../view.js'
import { waitGraphView } from '../waits.js'

const maxRows = 200
/** Of what ticks next, and of queues. */
const maxUpcoming = 100

/** Where somebody was held up when it was asked last: there it need not be asked first whether anybody is. */
const observersWithWaits = new WeakSet<Observer>()

/** What is now: who waits for whom, the fleet at a glance, and whether the promises hold. */
export const now = {
  // A wait for a lease is written down after one to two seconds, and is to be seen within three.
  graph: view({
    intervalMs: 700,
    params: { namespace: 'text' },
    async read({ observer }, { namespace }) {
      if (!observersWithWaits.has(observer) && !(await observer.hasBlockedWaits())) return waitGraphView()
      const graph = await observer.graph({ namespace, elections: false })
      if (graph.names.length > 0) observersWithWaits.add(observer)
      else observersWithWaits.delete(observer)
      return waitGraphView(graph)
    },
  }),

  overview: view({
    intervalMs: 3_000,
    params: { namespace: 'text' },
    async read({ observer }, { namespace }) {
      const { server, counts, schedules, queues, overMs, trouble } = await observer.overview({ namespace })
      return {
        server,
        counts,
        schedules: schedules.slice(0, maxUpcoming),
        queues: queues.slice(0, maxUpcoming),
        overMs,
        trouble: trouble.slice(0, maxRows),
      }
    },
  }),

  proof: view({
    intervalMs: 30_000,
    read: ({ observer }) => observer.proof(),
  }),
}
