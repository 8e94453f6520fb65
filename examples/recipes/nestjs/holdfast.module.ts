// The instance as a provider, for the whole application: whoever needs it has `constructor(private readonly holdfast: Holdfast)`.
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

  /** While requests are still answered: jobs, ticks and what requests hold come to their end. */
  async beforeApplicationShutdown() {
    await this.holdfast.drain({ within: '20s' })
  }

  /** Nest has answered its last request. */
  async onApplicationShutdown() {
    await this.holdfast.close()
    await this.pool.end()
  }
}
