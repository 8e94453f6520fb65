import { setTimeout as pause } from 'node:timers/promises'
import { LimitReachedError } from '../../index.js'
import type { DepartmentContext } from './department.js'

/** Runs at most one export per customer and three in total, across all instances. Rejects further requests with 409. */
export function exports({ holdfast, pool, name, record, serve }: DepartmentContext): void {
  serve('/exports', async (request) => {
    const { customer } = (await request.json()) as { customer: number }
    try {
      await holdfast.limits.with(`export:${customer}`, { max: 1 }, (own) =>
        holdfast.limits.with('exports', { max: 3, wait: '500ms' }, (shared) =>
          record('export', customer, async () => {
            const began = await pool.query('select clock_timestamp()::text as at')
            await pause(500 + Math.random() * 1_500, undefined, { signal: shared.signal })
            const ended = await pool.query('select clock_timestamp()::text as at')
            // Both times were read before this check, so the row is correct even if the insert arrives late.
            if (!own.held || !shared.held) throw new Error('The permits were lost')
            const values = [customer, began.rows[0].at, ended.rows[0].at, name]
            await pool.query(
              'insert into export (customer, began_at, ended_at, written_by) values ($1, $2, $3, $4)',
              values,
            )
          }),
        ),
      )
      return new Response(null, { status: 201 })
    } catch (error) {
      if (!(error instanceof LimitReachedError)) throw error
      return Response.json({ reached: error.limit }, { status: 409 })
    }
  })
}
