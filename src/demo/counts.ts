import type pg from 'pg'
import { loadStatements } from '../postgres/index.js'

/** A company's completed work, and the work that was done twice or not at all. */
export interface Counts {
  /** Number of payment events that were booked. */
  readonly payments: number
  /** Number of bookings in addition to the first booking of each event. */
  readonly paymentsTwice: number
  /** Number of repeated webhook deliveries that received the response to the first delivery. */
  readonly duplicatesAnswered: number
  /** Number of orders with an invoice. */
  readonly invoices: number
  /** Number of orders that were marked as billed more than 15 seconds ago and have no invoice. */
  readonly invoicesLost: number
  /** Number of customers with a welcome email. */
  readonly emails: number
  /** Number of customers that are older than 15 seconds and have no welcome email. */
  readonly emailsLost: number
  /** Number of nights with a report. */
  readonly reports: number
  /** Number of reports in addition to the first report of each night. */
  readonly reportsTwice: number
  /** Number of entries in the books that overwrote another entry's number. */
  readonly updatesLost: number
}

/** Returns the counts for one company. The pool's search path selects the company's tables. */
export async function countWork(pool: pg.Pool, schema: string): Promise<Counts> {
  const { counts } = loadStatements<'counts'>(new URL('./counts.sql', import.meta.url), schema)
  const { rows } = await pool.query<Record<keyof Counts, string>>(counts.text)
  return Object.fromEntries(Object.entries(rows[0]!).map(([name, count]) => [name, Number(count)])) as unknown as Counts
}
