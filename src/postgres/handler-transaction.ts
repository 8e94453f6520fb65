import type { CallerTransaction } from './caller.js'

/**
 * Transaction of a run. Its writes commit together with the result. `query` works like the `query` method of a `pg`
 * client.
 */
export interface Transaction {
  query<Row = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<{ rows: Row[] }>
}

/**
 * Declares the type of your library's transaction, so that `tx` in handlers is a promise of this type. Declare the type
 * once per program. Also pass the `transaction` option to `Holdfast.open`.
 *
 * @example
 * declare module 'holdfast' {
 *   interface Register {
 *     transaction: EntityManager // the transaction of TypeORM or MikroORM
 *   }
 * }
 */
// biome-ignore lint/suspicious/noEmptyInterface: the user's program adds the member
export interface Register {}

/** Type of `tx` in handlers: a promise of the registered transaction, or a `Transaction` if none is registered. */
export type HandlerTransaction = Register extends { transaction: infer Tx extends CallerTransaction }
  ? Promise<Tx>
  : Transaction

/** Type of the `transaction` option. Without a registered transaction, the option is not allowed. */
export type TransactionOption = Register extends { transaction: infer Tx extends CallerTransaction }
  ? OpenTransaction<Tx>
  : undefined

/**
 * Function that opens a transaction of your library and calls `work` once with this transaction. If the promise of
 * `work` resolves, the function commits. If it rejects, the function rolls back.
 */
export type OpenTransaction<Tx = CallerTransaction> = (work: (tx: Tx) => Promise<void>) => PromiseLike<unknown>
