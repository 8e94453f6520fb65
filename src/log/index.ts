export { EventLog } from './event-log.js'
export { type FieldsLogger, type Logger, logOption, type MessageLogger } from './logger.js'
