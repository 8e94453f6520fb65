import { Injectable } from '@nestjs/common'
import { Holdfast, type JobContext, type ScheduleRun } from 'holdfast'
import { JobHandler, Schedule } from 'holdfast/nestjs'
import pg from 'pg'
import { exportOrders, makeReport, type Order, placeOrder, sendInvoice, writeInvoice } from '../shop.js'

@Injectable()
export class ShopService {
  constructor(
    private readonly holdfast: Holdfast,
    private readonly pool: pg.Pool,
  ) {}

  @JobHandler(sendInvoice)
  invoice(input: { order: number }, job: JobContext) {
    return writeInvoice(input, job)
  }

  @Schedule('nightly-report', { cron: '0 3 * * *', timezone: 'Europe/London' })
  nightlyReport({ tick }: ScheduleRun) {
    return makeReport(this.pool, tick.toISOString())
  }

  order(order: Order) {
    return placeOrder({ pool: this.pool, holdfast: this.holdfast }, order)
  }

  report(day: string) {
    return this.holdfast.locks.with(`report:${day}`, { wait: 0 }, () => makeReport(this.pool, day))
  }

  export(user: string) {
    return this.holdfast.limits.with(`export:${user}`, { max: 1 }, () => exportOrders(this.pool, user))
  }
}
