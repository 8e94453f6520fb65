import { placeOrder } from '../../../shop.js'
import { shop } from '../../lib/shop'

export async function POST(request: Request) {
  return Response.json(await placeOrder(await shop(), await request.json()), { status: 201 })
}
