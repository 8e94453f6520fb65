export type { AnswerCodec, StoredAnswer } from './answer.js'
export { Attempt } from './attempt.js'
export * from './errors.js'
export {
  Once,
  type OnceAnswer,
  type OnceInTransactionOptions,
  type OnceOptions,
  type OnceSettings,
  retainRule,
  waitRule,
} from './once.js'
export type { Delivery } from './run.js'
export { RunTransaction, type TransactionContext, transactionContext } from './transaction.js'
