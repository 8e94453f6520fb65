// Keeps one instance per process. Next loads a module several times: separately for instrumentation and for routes, on
// every hot reload, and in `next build`. The instance is therefore stored in `globalThis`, and loading this module does
// not open it.
import { Holdfast } from 'holdfast'
import { type Dashboard, dashboard } from 'holdfast/dashboard'
import pg from 'pg'
import { makeReport, operatorOf, sendInvoice } from '../../shop.js'

interface Shop {
  readonly pool: pg.Pool
  readonly holdfast: Holdfast
  readonly board: Dashboard
}

const kept = globalThis as { shop?: Promise<Shop> | undefined }

/** Opens the instance on the first call. */
export function shop(): Promise<Shop> {
  kept.shop ??= open().catch((error) => {
    kept.shop = undefined // the next request tries again
    throw error
  })
  return kept.shop
}

async function open(): Promise<Shop> {
  const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 20 })
  const holdfast = await Holdfast.open({ pool, namespace: 'shop' })
  holdfast.jobs.work([sendInvoice], { concurrency: 10 })
  holdfast.schedules.add('nightly-report', { cron: '0 3 * * *', timezone: 'Europe/London' }, ({ tick }) =>
    makeReport(pool, tick.toISOString()),
  )
  return { pool, holdfast, board: dashboard({ pool, auth: operatorOf }) }
}

export async function shutDown(): Promise<void> {
  const { pool, holdfast, board } = await shop()
  await holdfast.drain({ within: '20s' }) // waits for jobs, ticks, and what requests hold
  await board.close() // closes the open pages
  await holdfast.close()
  await pool.end()
}
