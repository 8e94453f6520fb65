import { type BeforeApplicationShutdown, type MiddlewareConsumer, Module, type NestModule } from '@nestjs/common'
import { APP_FILTER } from '@nestjs/core'
import { Holdfast } from 'holdfast'
import { dashboard } from 'holdfast/dashboard'
import { webhooks } from 'holdfast/http'
import { HoldfastModule } from 'holdfast/nestjs'
import pg from 'pg'
import { operatorOf } from '../shop.js'
import { BusyFilter } from './busy.filter.js'
import { DatabaseModule } from './database.module.js'
import { HealthController, ShopController, WebhooksController } from './shop.controllers.js'
import { ShopService } from './shop.service.js'

@Module({
  imports: [
    DatabaseModule,
    HoldfastModule.forRootAsync({
      imports: [DatabaseModule],
      inject: [pg.Pool],
      useFactory: (pool: pg.Pool) => ({ pool, namespace: 'shop', work: { concurrency: 10 }, drainWithin: '20s' }),
    }),
  ],
  controllers: [ShopController, WebhooksController, HealthController],
  providers: [ShopService, { provide: APP_FILTER, useClass: BusyFilter }],
})
export class AppModule implements NestModule, BeforeApplicationShutdown {
  private readonly board
  constructor(
    private readonly holdfast: Holdfast,
    pool: pg.Pool,
  ) {
    this.board = dashboard({ pool, auth: operatorOf })
  }

  configure(consumer: MiddlewareConsumer) {
    const events = webhooks(this.holdfast.once, { key: (request) => `payments:${request.body.id}` })
    consumer.apply(events.express()).forRoutes(WebhooksController)
    consumer.apply(this.board.node).forRoutes('admin/holdfast')
  }

  /** Closes the open pages, which would keep the server open. */
  async beforeApplicationShutdown() {
    await this.board.close()
  }
}
