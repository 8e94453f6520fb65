import { Injectable, type OnApplicationBootstrap } from '@nestjs/common'
import { Holdfast } from 'holdfast'
import pg from 'pg'
import { exportOrders, makeReport, placeOrder, sendInvoice } from '../shop.js'

@Injectable()
export class ShopService implements OnApplicationBootstrap {
  constructor(
    private readonly holdfast: Holdfast,
    private readonly pool: pg.Pool,
  ) {}

  /** Runs the worker and the schedule next to the routes. For a separate process, use `NestFactory.createApplicationContext`. */
  onApplicationBootstrap() {
    this.holdfast.jobs.work([sendInvoice], { concurrency: 10 })
    this.holdfast.schedules.add('nightly-report', { cron: '0 3 * * *', timezone: 'Europe/London' }, ({ tick }) =>
      makeReport(this.pool, tick.toISOString()),
    )
  }

  order(order: { customer: string; total: number }) {
    return placeOrder({ pool: this.pool, holdfast: this.holdfast }, order)
  }

  report(day: string) {
    return this.holdfast.locks.with(`report:${day}`, { wait: 0 }, () => makeReport(this.pool, day))
  }

  export(user: string) {
    return this.holdfast.limits.with(`export:${user}`, { max: 1 }, () => exportOrders(this.pool, user))
  }
}
