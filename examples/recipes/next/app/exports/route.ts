import { exportOrders } from '../../../shop.js'
import { busy } from '../../lib/busy'
import { shop } from '../../lib/shop'

export async function POST(request: Request) {
  const { pool, holdfast } = await shop()
  const { user } = await request.json()
  return holdfast.limits
    .with(`export:${user}`, { max: 1 }, async () => Response.json(await exportOrders(pool, user)))
    .catch(busy)
}
