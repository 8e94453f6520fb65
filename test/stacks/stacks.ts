import { MikroORM } from '@mikro-orm/postgresql'
import { PrismaPg } from '@prisma/adapter-pg'
import { drizzle as drizzleOfPg } from 'drizzle-orm/node-postgres'
import { drizzle as drizzleOfPostgresJs } from 'drizzle-orm/postgres-js'
import knex from 'knex'
import { CamelCasePlugin, Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import postgres from 'postgres'
import { DataSource } from 'typeorm'
import type { CallerTransaction } from '../../src/index.js'
import { PrismaClient } from './prisma.js'

/** A library for SQL: how it opens a transaction, and how a statement runs in it. */
export interface Stack {
  transaction<T>(work: (tx: CallerTransaction) => Promise<T>): Promise<T>
  /** Objects that can be confused with a transaction. The keys are their names in the error message. */
  readonly outside: Readonly<Record<string, unknown>>
  close(): Promise<unknown>
}

const max = 3

function poolOf(url: string): pg.Pool {
  const pool = new pg.Pool({ connectionString: url, max })
  // pool.end does not wait for its connections, and the database is dropped afterwards.
  pool.on('error', () => {})
  return pool
}

/** Each library with typical settings. Some settings change the shape of results. */
export const stacks: Record<string, (url: string) => Promise<Stack>> = {
  async 'node-postgres, a client'(url) {
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    return {
      transaction: (work) => byHand(client, work),
      outside: { 'a client without an open transaction': client },
      close: () => client.end(),
    }
  },

  async 'node-postgres, a pool'(url) {
    const pool = poolOf(url)
    return {
      async transaction(work) {
        const client = await pool.connect()
        try {
          return await byHand(client, work)
        } finally {
          client.release()
        }
      },
      outside: { 'a pool of node-postgres': pool },
      close: () => pool.end(),
    }
  },

  async 'an object with a query'(url) {
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    const pool = poolOf(url)
    const wrap = (by: pg.Client | pg.Pool) => ({
      query: async (text: string, values?: unknown[]) => ({ rows: (await by.query(text, values)).rows }),
    })
    return {
      transaction: (work) => byHand(client, () => work(wrap(client))),
      outside: { 'a client without an open transaction': wrap(pool) },
      close: () => Promise.all([client.end(), pool.end()]),
    }
  },

  async 'postgres.js'(url) {
    const sql = postgres(url, { max, onnotice() {}, transform: postgres.camel })
    return {
      transaction: <T>(work: (tx: CallerTransaction) => Promise<T>) => sql.begin(work) as Promise<T>,
      outside: { 'the postgres.js sql object outside a transaction': sql },
      close: () => sql.end(),
    }
  },

  async 'postgres.js, reserved'(url) {
    const sql = postgres(url, { max, onnotice() {} })
    const reserved = await sql.reserve()
    return {
      transaction: (work) => byHand({ query: (text) => reserved.unsafe(text) }, () => work(reserved)),
      outside: { 'a client without an open transaction': reserved },
      async close() {
        reserved.release()
        await sql.end()
      },
    }
  },

  async 'Drizzle over node-postgres'(url) {
    const pool = poolOf(url)
    const db = drizzleOfPg(pool)
    return {
      transaction: (work) => db.transaction((tx) => work(tx)),
      outside: { 'Drizzle outside a transaction': db },
      close: () => pool.end(),
    }
  },

  async 'Drizzle over postgres.js'(url) {
    const sql = postgres(url, { max, onnotice() {} })
    const db = drizzleOfPostgresJs(sql)
    return {
      transaction: (work) => db.transaction((tx) => work(tx)),
      outside: { 'Drizzle outside a transaction': db },
      close: () => sql.end(),
    }
  },

  async Kysely(url) {
    const dialect = new PostgresDialect({ pool: poolOf(url) })
    const db = new Kysely<object>({ dialect, plugins: [new CamelCasePlugin()] })
    return {
      transaction: (work) => db.transaction().execute((trx) => work(trx)),
      outside: { 'Kysely outside a transaction': db },
      close: () => db.destroy(),
    }
  },

  async Knex(url) {
    const db = knex({
      client: 'pg',
      connection: url,
      pool: { min: 0, max },
      postProcessResponse: () => 'not for us',
    })
    return {
      transaction: (work) => db.transaction((trx) => work(trx)),
      outside: { 'Knex outside a transaction': db },
      close: () => db.destroy(),
    }
  },

  async MikroORM(url) {
    const orm = await MikroORM.init({ clientUrl: url, discovery: { warnWhenNoEntities: false }, pool: { max } })
    return {
      transaction: (work) => orm.em.fork().transactional((em) => work(em)),
      outside: { 'MikroORM outside a transaction': orm.em.fork() },
      close: () => orm.close(),
    }
  },

  async Prisma(url) {
    const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: url, max }) })
    return {
      transaction: (work) => prisma.$transaction((tx: CallerTransaction) => work(tx), { timeout: 30_000 }),
      outside: { 'Prisma outside a transaction': prisma },
      close: () => prisma.$disconnect(),
    }
  },

  async TypeORM(url) {
    const source = await new DataSource({ type: 'postgres', url, extra: { max } }).initialize()
    return {
      transaction: (work) => source.transaction((manager) => work(manager)),
      outside: { 'TypeORM outside a transaction': source.manager },
      close: () => source.destroy(),
    }
  },

  async 'TypeORM, a query runner'(url) {
    const source = await new DataSource({ type: 'postgres', url, extra: { max } }).initialize()
    return {
      async transaction(work) {
        const runner = source.createQueryRunner()
        await runner.startTransaction()
        try {
          const result = await work(runner)
          await runner.commitTransaction()
          return result
        } catch (error) {
          await runner.rollbackTransaction()
          throw error
        } finally {
          await runner.release()
        }
      },
      outside: { 'TypeORM outside a transaction': source.createQueryRunner() },
      close: () => source.destroy(),
    }
  },
}

interface ByHand {
  query(text: string): PromiseLike<unknown>
}

async function byHand<T, Client extends ByHand>(client: Client, work: (tx: Client) => Promise<T>): Promise<T> {
  await client.query('begin')
  try {
    const result = await work(client)
    await client.query('commit')
    return result
  } catch (error) {
    await client.query('rollback')
    throw error
  }
}
