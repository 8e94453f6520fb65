import { setTimeout as pause } from 'node:timers/promises'
import { deliveryOf, webhooks } from '../../http/index.js'
import type { DepartmentContext } from './department.js'

/**
 * Books payment events. The provider sends each event twice at the same time, and repeats each delivery until it receives status 201. Any
 * instance may receive a delivery. The first delivery books the event, and later deliveries receive the same response.
 */
export function payments({ holdfast, name, record, serve }: DepartmentContext): void {
  const events = webhooks<Request>(holdfast.once, { key: (request) => `psp:${request.headers.get('x-event-id')}` })
  serve(
    '/payments',
    events.fetch((request) => {
      const event = request.headers.get('x-event-id')
      const { tx, fence, signal } = deliveryOf(request)!
      return record('payment', event, async () => {
        await pause(50 + Math.random() * 400, undefined, { signal })
        await tx.query('insert into booking (event, fence, written_by) values ($1, $2, $3)', [event, fence, name])
        return Response.json({ booked: event }, { status: 201 })
      })
    }),
  )
}
