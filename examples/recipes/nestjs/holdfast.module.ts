// Provides the instance to the whole application. A class receives it with `constructor(private readonly holdfast: Holdfast)`.
import { type BeforeApplicationShutdown, Global, Module, type OnApplicationShutdown } from '@nestjs/common'
import { Holdfast } from 'holdfast'
import pg from 'pg'

@Global()
@Module({
  providers: [
    {
      provide: pg.Pool,
      useFactory: () => new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 20 }),
    },
    {
      provide: Holdfast,
      inject: [pg.Pool],
      useFactory: (pool: pg.Pool) => Holdfast.open({ pool, namespace: 'shop' }),
    },
  ],
  exports: [pg.Pool, Holdfast],
})
export class HoldfastModule implements BeforeApplicationShutdown, OnApplicationShutdown {
  constructor(
    private readonly holdfast: Holdfast,
    private readonly pool: pg.Pool,
  ) {}

  /** Waits for jobs, ticks, and what requests hold. Nest still handles requests at this time. */
  async beforeApplicationShutdown() {
    await this.holdfast.drain({ within: '20s' })
  }

  /** Runs after the response to the last request. */
  async onApplicationShutdown() {
    await this.holdfast.close()
    await this.pool.end()
  }
}
