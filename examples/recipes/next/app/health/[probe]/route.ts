import { healthHandler } from 'holdfast/telemetry'
import { shop } from '../../../lib/shop'

export async function GET(request: Request) {
  return healthHandler((await shop()).holdfast)(request)
}
