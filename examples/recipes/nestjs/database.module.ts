// The pool as a provider. HoldfastModule imports this module, so NestJS ends the pool after it has closed the instance.
import { Module, type OnApplicationShutdown } from '@nestjs/common'
import pg from 'pg'

@Module({
  providers: [
    { provide: pg.Pool, useFactory: () => new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 20 }) },
  ],
  exports: [pg.Pool],
})
export class DatabaseModule implements OnApplicationShutdown {
  constructor(private readonly pool: pg.Pool) {}

  async onApplicationShutdown() {
    await this.pool.end()
  }
}
