import { setTimeout as pause } from 'node:timers/promises'
import { defineJob } from '../../index.js'
import { type DepartmentContext, transaction } from './department.js'

interface Customer {
  readonly customer: number
  readonly domain: string
}

/**
 * Starts a workflow for a new customer, in the transaction that inserts the customer. The workflow first creates the account, then the
 * contract and a welcome mail, and finally a call. Lanes limit the mails to two at a time per domain.
 */
export function onboarding({ holdfast, pool, name, record, serve }: DepartmentContext): void {
  const step = (kind: string, queue: string, domainOf: (customer: Customer) => string | null = () => null) =>
    defineJob(kind, {
      queue,
      lanes: { max: 2 },
      run: (input: Customer, { tx, signal }) =>
        record(kind, input.customer, async () => {
          const began = await pool.query('select clock_timestamp()::text as at')
          await pause(100 + Math.random() * 600, undefined, { signal })
          await tx.query(
            'insert into step (customer, step, domain, began_at, written_by) values ($1, $2, $3, $4, $5)',
            [input.customer, kind, domainOf(input), began.rows[0].at, name],
          )
        }),
    })
  const account = step('account', 'onboarding')
  const contract = step('contract', 'onboarding')
  const call = step('call', 'onboarding')
  const mail = step('mail', 'mail', ({ domain }) => domain)

  serve('/customers', async (request) => {
    const { domain } = (await request.json()) as { domain: string }
    const { id } = await transaction(pool, async (client) => {
      const { rows } = await client.query('insert into customer (domain) values ($1) returning id', [domain])
      const customer: Customer = { customer: rows[0].id, domain }
      return holdfast.jobs.enqueueWorkflow({ tx: client }, (workflow) => {
        const first = workflow.add(account, customer)
        const papers = workflow.add(contract, customer, { after: [first] })
        const welcome = workflow.add(mail, customer, { after: [first], lane: `smtp:${domain}` })
        workflow.add(call, customer, { after: [papers, welcome] })
      })
    })
    return Response.json({ workflow: id }, { status: 201 })
  })
  holdfast.jobs.work([account, contract, call], { concurrency: 4 })
  holdfast.jobs.work([mail], { concurrency: 4 })
}
