// The libraries whose transactions handlers can use. The programs of the fault tests import this file too, so its imports end in .ts.
import { defineEntity, MikroORM, p } from '@mikro-orm/postgresql'
import { PrismaPg } from '@prisma/adapter-pg'
import { drizzle as drizzleOfPg } from 'drizzle-orm/node-postgres'
import { pgTable, text } from 'drizzle-orm/pg-core'
import { drizzle as drizzleOfPostgresJs } from 'drizzle-orm/postgres-js'
import type { OpenTransaction } from 'holdfast'
import knex from 'knex'
import { CamelCasePlugin, Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import postgres from 'postgres'
import { DataSource, EntitySchema } from 'typeorm'
import { PrismaClient } from './prisma.ts'

/** A library: how it opens a transaction, and how a program inserts an effect with the library's own methods. */
export interface Library {
  readonly transaction: OpenTransaction
  insert(tx: unknown, name: string): Promise<unknown>
  close(): Promise<unknown>
}

/** Keeps the type of the transaction inside the description of a library. */
function library<Tx>(given: {
  transaction: OpenTransaction<Tx>
  insert(tx: Tx, name: string): PromiseLike<unknown>
  close(): Promise<unknown>
}): Library {
  return given as unknown as Library
}

/** Table in which the tests count effects. `unique` values are checked only at the commit. */
export const effectTable = `
  create table effect (
    id integer generated always as identity primary key,
    name text not null,
    once text unique deferrable initially deferred
  )`

const max = 12

function poolOf(url: string): pg.Pool {
  const pool = new pg.Pool({ connectionString: url, max })
  // pool.end does not wait for its connections, and the database is dropped afterwards.
  pool.on('error', () => {})
  // Without a listener, a session that is ended during a transaction would end the process.
  pool.on('connect', (client) => client.on('error', () => {}))
  return pool
}

const effects = pgTable('effect', { name: text() })
const TypeOrmEffect = new EntitySchema<{ id: number; name: string }>({
  name: 'effect',
  columns: { id: { type: 'int', primary: true, generated: true }, name: { type: 'text' } },
})
const MikroOrmEffect = defineEntity({
  name: 'Effect',
  tableName: 'effect',
  properties: { id: p.integer().primary(), name: p.text() },
})

/** Opens each library with typical settings. Some settings change the shape of results. */
export const libraries: Record<string, (url: string) => Promise<Library>> = {
  async 'node-postgres'(url) {
    const pool = poolOf(url)
    return library<pg.PoolClient>({
      async transaction(work) {
        const client = await pool.connect()
        try {
          await client.query('begin')
          await work(client)
          await client.query('commit')
        } catch (error) {
          await client.query('rollback')
          throw error
        } finally {
          client.release()
        }
      },
      insert: (client, name) => client.query('insert into effect (name) values ($1)', [name]),
      close: () => pool.end(),
    })
  },

  async 'postgres.js'(url) {
    const sql = postgres(url, { max, onnotice() {}, transform: postgres.camel })
    return library<postgres.TransactionSql>({
      transaction: (work) => sql.begin(work),
      insert: (tx, name) => tx`insert into effect (name) values (${name})`,
      close: () => sql.end(),
    })
  },

  async 'Drizzle over node-postgres'(url) {
    const pool = poolOf(url)
    const db = drizzleOfPg(pool)
    return library<Parameters<Parameters<typeof db.transaction>[0]>[0]>({
      transaction: (work) => db.transaction(work),
      insert: (tx, name) => tx.insert(effects).values({ name }),
      close: () => pool.end(),
    })
  },

  async 'Drizzle over postgres.js'(url) {
    const sql = postgres(url, { max, onnotice() {} })
    const db = drizzleOfPostgresJs(sql)
    return library<Parameters<Parameters<typeof db.transaction>[0]>[0]>({
      transaction: (work) => db.transaction(work),
      insert: (tx, name) => tx.insert(effects).values({ name }),
      close: () => sql.end(),
    })
  },

  async Kysely(url) {
    const dialect = new PostgresDialect({ pool: poolOf(url) })
    const db = new Kysely<{ effect: { name: string } }>({ dialect, plugins: [new CamelCasePlugin()] })
    return library<Parameters<Parameters<ReturnType<typeof db.transaction>['execute']>[0]>[0]>({
      transaction: (work) => db.transaction().execute(work),
      insert: (trx, name) => trx.insertInto('effect').values({ name }).execute(),
      close: () => db.destroy(),
    })
  },

  async Knex(url) {
    const db = knex({ client: 'pg', connection: url, pool: { min: 0, max }, postProcessResponse: () => 'not for us' })
    return library<knex.Knex.Transaction>({
      transaction: (work) => db.transaction(work),
      insert: (trx, name) => trx('effect').insert({ name }),
      close: () => db.destroy(),
    })
  },

  async Prisma(url) {
    const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: url, max }) })
    return library<{ $executeRaw(text: TemplateStringsArray, name: string): Promise<number> }>({
      transaction: (work) => prisma.$transaction(work, { timeout: 60_000, maxWait: 30_000 }),
      insert: (tx, name) => tx.$executeRaw`insert into effect (name) values (${name})`,
      close: () => prisma.$disconnect(),
    })
  },

  async TypeORM(url) {
    const entities = [TypeOrmEffect]
    const source = await new DataSource({ type: 'postgres', url, entities, extra: { max } }).initialize()
    return library<typeof source.manager>({
      transaction: (work) => source.transaction(work),
      insert: (manager, name) => manager.insert(TypeOrmEffect, { name }),
      close: () => source.destroy(),
    })
  },

  async MikroORM(url) {
    const orm = await MikroORM.init({ clientUrl: url, entities: [MikroOrmEffect], pool: { max } })
    return library<typeof orm.em>({
      transaction: (work) => orm.em.fork().transactional(work),
      insert: (em, name) => em.insert(MikroOrmEffect, { name } as never),
      close: () => orm.close(),
    })
  },
}
