export { EventLog } from './event-log.js'
export { type Logger, logOption } from './logger.js'
