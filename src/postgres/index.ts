export * from './address.js'
export * from './anchor.js'
export * from './caller.js'
export * from './database.js'
export * from './draining.js'
export * from './errors.js'
export type {
  HandlerTransaction,
  OpenTransaction,
  Register,
  Transaction,
  TransactionOption,
} from './handler-transaction.js'
export * from './health.js'
export { HeldWork } from './held-work.js'
export * from './holders.js'
export { HostsClient, watchHosts } from './hosts.js'
export * from './instance-name.js'
export type {
  DrizzleTransaction,
  KnexTransaction,
  KyselyTransaction,
  LibraryTransaction,
  MikroOrmTransaction,
  PrismaTransaction,
  TypeOrmManager,
  TypeOrmRunner,
  TypeOrmTransaction,
} from './library-transactions.js'
export { lockClass } from './lock-classes.js'
export * from './migrate.js'
export * from './name-locker.js'
export * from './names.js'
export * from './node-postgres.js'
export { OwnPool } from './own-pool.js'
export { beginGeneration, checkConnections } from './pglite.js'
export { plannedFunctions } from './planner-settings.js'
export * from './postgres-js.js'
export * from './presence.js'
export { explainReadOnly } from './read-only.js'
export { lateEffectMs, responseTimeoutMs } from './response-timeout.js'
export * from './retry-on-conflict.js'
export * from './roles.js'
export * from './row-presence.js'
export { functionsRevision, type RoomFunctions, roomFunctions } from './schema-rooms.js'
export * from './session.js'
export * from './setting-source.js'
export * from './sqlstate.js'
export * from './statements.js'
export * from './sweeper.js'
export * from './waits.js'
export { WriteMonitor } from './write-monitor.js'
