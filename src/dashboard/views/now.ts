import { type Observer, type Trouble, troubleDetail } from '../../observe/index.js'
import type { Redact } from '../redact.js'
import { maxRows, view } from '../view.js'
import { waitGraphView } from '../waits.js'
import { errorDetails } from './jobs.js'

/** Maximum number of schedules, and maximum number of queues, in the overview. */
const maxUpcoming = 100

/** Observers whose last graph contained waits. The cheap test for waits is skipped for these observers. */
const observersWithWaits = new WeakSet<Observer>()

/** Views for the page with the wait graph, the overview and the proof. */
export const now = {
  // A lease wait is recorded after 1 to 2 s and should appear on the page within 3 s.
  graph: view({
    intervalMs: 900,
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
    intervalMs: 5_000,
    params: { namespace: 'text' },
    async read({ observer, redact }, { namespace }) {
      const { server, counts, schedules, queues, overMs, trouble } = await observer.overview({ namespace })
      return {
        server,
        counts,
        schedules: schedules.slice(0, maxUpcoming),
        queues: queues.slice(0, maxUpcoming),
        overMs,
        trouble: trouble.slice(0, maxRows).map((one) => withRedactedDetail(one, redact)),
      }
    },
  }),

  proof: view({
    intervalMs: 30_000,
    read: ({ observer }) => observer.proof(),
  }),
}

/** Replaces the error of a job or a run by a detail without secrets. */
function withRedactedDetail({ jobKind, error, ...trouble }: Trouble, redact: Redact) {
  if (error === null) return trouble
  const what = trouble.kind === 'buried' ? 'job error' : 'run error'
  const { message } = errorDetails(redact(error, { what, of: jobKind ?? trouble.subject }))
  return { ...trouble, detail: troubleDetail(jobKind, message) }
}
