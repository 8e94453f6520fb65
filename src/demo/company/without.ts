// The same company without Holdfast, written as many applications are: timers in each process, work that exists only in
// memory, and a check before an insert. This is enough only for one process that never crashes and handles one request at a
// time.
import { setTimeout as pause } from 'node:timers/promises'
import { type CompanyContext, transaction } from './department.js'

const nightMs = 10_000

/** Each process has a timer. The process creates the report if the report does not exist yet. */
function reports({ pool, name }: CompanyContext): void {
  let lastNight = Math.floor(Date.now() / nightMs)
  const createReport = async (night: Date) => {
    const { rowCount } = await pool.query('select from report where night = $1', [night])
    if (rowCount !== 0) return
    await pause(3_000)
    await pool.query('insert into report (night, attempt, fence, written_by) values ($1, 1, 0, $2)', [night, name])
  }
  setInterval(() => {
    const night = Math.floor(Date.now() / nightMs)
    if (night === lastNight) return
    lastNight = night
    createReport(new Date(night * nightMs)).catch(() => {})
  }, 100)
}

/** Marks new orders as billed, and writes their invoices afterwards. A crash loses the invoices that are in memory. */
function billing({ pool, name, repeat }: CompanyContext): void {
  repeat(3_000, async () => {
    const orders = await pool.query<{ id: number }>(
      'update "order" set billed_at = now() where billed_at is null returning id',
    )
    for (const { id } of orders.rows) {
      await pause(200 + Math.random() * 1_500)
      const values = [id, name]
      await pool.query(
        'insert into invoice (order_id, job, attempt, fence, written_by) values ($1, 0, 1, 0, $2)',
        values,
      )
    }
  })
}

/** Runs a new customer's steps after the response. A crash loses the remaining steps. */
function onboarding({ pool, name, serve }: CompanyContext): void {
  serve('/customers', async (request) => {
    const { domain } = (await request.json()) as { domain: string }
    const { rows } = await pool.query('insert into customer (domain) values ($1) returning id', [domain])
    const runSteps = async () => {
      for (const step of ['account', 'contract', 'mail', 'call']) {
        await pause(100 + Math.random() * 600)
        await pool.query(
          'insert into step (customer, step, domain, began_at, written_by) values ($1, $2, $3, now(), $4)',
          [rows[0].id, step, step === 'mail' ? domain : null, name],
        )
      }
    }
    runSteps().catch(() => {})
    return Response.json({ customer: rows[0].id }, { status: 201 })
  })
}

/** Books a payment unless its event has already been booked. Two deliveries at the same time both find no booking. */
function payments({ pool, name, serve }: CompanyContext): void {
  serve('/payments', async (request) => {
    const event = request.headers.get('x-event-id')
    const { rowCount } = await pool.query('select from booking where event = $1', [event])
    if (rowCount === 0) {
      await pause(50 + Math.random() * 400)
      await pool.query('insert into booking (event, fence, written_by) values ($1, 0, $2)', [event, name])
    }
    return Response.json({ booked: event }, { status: 201 })
  })
}

/** Adds an entry in a transaction. Two transactions can read the same previous entry. */
function books({ pool, name, repeat }: CompanyContext): void {
  repeat(1_500, () =>
    transaction(pool, async (client) => {
      const last = await client.query('select number, balance from entry order by id desc limit 1')
      const { number, balance } = last.rows[0] ?? { number: 0, balance: 0 }
      const amount = Math.ceil(Math.random() * 100)
      await pause(20)
      await client.query('insert into entry (number, amount, balance, fence, written_by) values ($1, $2, $3, 0, $4)', [
        number + 1,
        amount,
        balance + amount,
        name,
      ])
    }),
  )
}

/** The departments whose failures the demo counts. The company without Holdfast has no other departments. */
export const departmentsWithout: readonly ((context: CompanyContext) => void)[] = [
  reports,
  billing,
  onboarding,
  payments,
  books,
]
