import type { Observer } from '../../observe/index.js'
import { view } from '../view.js'
import { pictureOf } from '../waits.js'

const mostRows = 200
/** Of what ticks next, and of queues. */
const mostNext = 100

/** Where somebody was held up when it was asked last: there it need not be asked first whether anybody is. */
const contended = new WeakSet<Observer>()

/** What is now: who waits for whom, the fleet at a glance, and whether the promises hold. */
export const now = {
  // A wait for a lease is written down after one to two seconds, and is to be seen within three.
  graph: view({
    everyMs: 700,
    params: { namespace: 'text' },
    async read({ observer }, { namespace }) {
      if (!contended.has(observer) && !(await observer.isAnybodyHeldUp())) return pictureOf()
      const graph = await observer.graph({ namespace, elections: false })
      if (graph.names.length > 0) contended.add(observer)
      else contended.delete(observer)
      return pictureOf(graph)
    },
  }),

  overview: view({
    everyMs: 3_000,
    params: { namespace: 'text' },
    async read({ observer }, { namespace }) {
      const { server, counts, schedules, queues, overMs, trouble } = await observer.overview({ namespace })
      return {
        server,
        counts,
        schedules: schedules.slice(0, mostNext),
        queues: queues.slice(0, mostNext),
        overMs,
        trouble: trouble.slice(0, mostRows),
      }
    },
  }),

  proof: view({
    everyMs: 30_000,
    read: ({ observer }) => observer.proof(),
  }),
}
