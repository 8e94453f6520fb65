import { setTimeout as pause } from 'node:timers/promises'
import { type DepartmentContext, transaction } from './department.js'

/** Adds entries to the books under a lock, because each entry depends on the previous balance. */
export function books({ holdfast, pool, name, record, repeat }: DepartmentContext): void {
  repeat(1_500, () =>
    holdfast.locks.with('books', (lock) =>
      record('books', 'of the company', () =>
        transaction(pool, async (client) => {
          await lock.guard(client)
          const last = await client.query('select number, balance from entry order by id desc limit 1')
          const { number, balance } = last.rows[0] ?? { number: 0, balance: 0 }
          const amount = Math.ceil(Math.random() * 100)
          await pause(20)
          await client.query(
            'insert into entry (number, amount, balance, fence, written_by) values ($1, $2, $3, $4, $5)',
            [number + 1, amount, balance + amount, lock.fence, name],
          )
        }),
      ),
    ),
  )
}
