// A program that uses every entry point. The test compiles it with the types of Node.js only. No test runs it.
import {
  defineJob,
  defineSchedule,
  Holdfast,
  HoldfastError,
  type HoldfastErrorCode,
  HostsClient,
  type ImplementedJob,
  implement,
  type JobRef,
  type PgPool,
} from 'holdfast'
import { dashboard } from 'holdfast/dashboard'
import { startEmbedded } from 'holdfast/embedded'
import { idempotent, webhooks } from 'holdfast/http'
import { healthHandler, instrument, metricsText } from 'holdfast/telemetry'
import { enqueued, jobEnded } from 'holdfast/testing'

declare const pool: PgPool
const holdfast = await Holdfast.open({ pool, expiry: '10s' })

const mail = defineJob<{ to: string }, number>('mail', { timeout: '1m' })
const mails: ImplementedJob<{ to: string }, number> = implement(mail, ({ to }) => to.length)
const ref: JobRef<number> = await holdfast.jobs.enqueue(mail, { to: 'ada' })
const length: number = await holdfast.jobs.result(ref)
// @ts-expect-error: a number is no address
await holdfast.jobs.enqueue(mail, { to: 7 })
// @ts-expect-error: a field that the definition does not have
await holdfast.jobs.enqueue(mail, { to: 'ada', cc: 'ben' })
// @ts-expect-error: the definition has no handler
holdfast.jobs.work([mail])
// @ts-expect-error: no duration
await holdfast.jobs.enqueue(mail, { to: 'ada' }, { delay: '5 minutes' })
holdfast.jobs.work([mails])
holdfast.schedules.add(defineSchedule('nightly', { cron: '0 3 * * *', job: mail, input: () => ({ to: 'ada' }) }))

const retryLater: readonly HoldfastErrorCode[] = ['LOCK_TIMEOUT', 'LIMIT_REACHED']
await holdfast.locks
  .with('report', { wait: '5s' }, () => {})
  .catch((error: unknown) => {
    if (!(error instanceof HoldfastError && retryLater.includes(error.code))) throw error
  })

instrument(holdfast, { tracer: { startSpan: () => ({}) } })
const openClient: new () => { connect(): Promise<unknown> } = HostsClient
const shown = [length, mails, await metricsText(holdfast), await enqueued(holdfast), await jobEnded(holdfast, ref.id)]
export const used = [shown, openClient, dashboard, startEmbedded, idempotent, webhooks, healthHandler]
