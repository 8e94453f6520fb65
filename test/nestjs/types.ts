// Types of the decorators. The compiler checks this file. No test runs it.
import { type BatchJob, defineJob, Holdfast, type JobContext, type Leadership, type ScheduleRun } from 'holdfast'
import { HoldfastModule, JobHandler, LeaderTask, Schedule } from 'holdfast/nestjs'
import pg from 'pg'

const mail = defineJob<{ to: string }, number>('mail')
const empty = defineJob('empty')

export class Accepted {
  @JobHandler(mail)
  whole({ to }: { to: string }, { signal }: JobContext) {
    return signal.aborted ? 0 : to.length
  }

  @JobHandler(mail)
  private async withoutContext({ to }: { to: string }) {
    return to.length
  }

  @JobHandler(mail, { batch: { size: 10, wait: '1s' } })
  batch(jobs: readonly BatchJob<{ to: string }>[]) {
    return jobs.map(({ input }) => input.to.length)
  }

  @JobHandler(empty)
  empty() {}

  @Schedule('nightly', { cron: '0 3 * * *' })
  nightly({ tick }: ScheduleRun) {
    return [tick.toISOString(), this.withoutContext]
  }

  @LeaderTask('indexer')
  lead({ signal }: Leadership) {
    return signal.aborted
  }
}

export class Refused {
  // @ts-expect-error: the input has no such field
  @JobHandler(mail)
  otherInput({ cc }: { cc: string }) {
    return cc.length
  }

  // @ts-expect-error: the result of the definition is a number
  @JobHandler(mail)
  otherResult({ to }: { to: string }) {
    return to
  }

  // @ts-expect-error: a batch handler receives a list
  @JobHandler(mail, { batch: { size: 10 } })
  noBatch({ to }: { to: string }) {
    return to.length
  }

  // @ts-expect-error: a property is not a method
  @JobHandler(mail)
  property = 7

  // @ts-expect-error: the method of a schedule receives the run
  @Schedule('nightly', { cron: '0 3 * * *' })
  nightly({ lateness }: { lateness: number }) {
    return lateness
  }

  // @ts-expect-error: a schedule has a rule
  @Schedule('nightly')
  noRule() {}
}

HoldfastModule.forRoot({ url: 'postgres://localhost/shop', work: { concurrency: 5 }, drainWithin: '20s' })
HoldfastModule.forRootAsync({ inject: [pg.Pool], useFactory: (pool: pg.Pool) => ({ pool }) })
HoldfastModule.forRootAsync({ inject: [Holdfast], useFactory: async () => ({ url: 'postgres://localhost/shop' }) })
// @ts-expect-error: the factory returns options of Holdfast
HoldfastModule.forRootAsync({ useFactory: () => ({ uri: 'postgres://localhost/shop' }) })
// @ts-expect-error: no duration
HoldfastModule.forRoot({ url: 'postgres://localhost/shop', drainWithin: '20 seconds' })
