import { deliveryOf, webhooks } from 'holdfast/http'
import { markPaid } from '../../../../shop.js'
import { shop } from '../../../lib/shop'

const keyOf = async (request: Request) => `payments:${(await request.json()).id}`

export async function POST(request: Request) {
  const { holdfast } = await shop()
  return webhooks(holdfast.once, { key: keyOf }).fetch(handle)(request)
}

async function handle(request: Request) {
  const { order } = await request.json()
  await markPaid(deliveryOf(request)!.tx, order)
  return Response.json({ received: true })
}
