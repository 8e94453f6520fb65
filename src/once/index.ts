export type { Form, Written } from './answer.js'
export * from './errors.js'
export {
  type Answer,
  type Delivery,
  Once,
  type OnceInTransactionOptions,
  type OnceOptions,
  type OnceSettings,
} from './once.js'
export type { Transaction } from './transaction.js'
