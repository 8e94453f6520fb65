import { makeReport } from '../../../../shop.js'
import { busy } from '../../../lib/busy'
import { shop } from '../../../lib/shop'

export async function POST(_request: Request, { params }: { params: Promise<{ day: string }> }) {
  const { pool, holdfast } = await shop()
  const { day } = await params
  return holdfast.locks
    .with(`report:${day}`, { wait: 0 }, async () => Response.json(await makeReport(pool, day)))
    .catch(busy)
}
