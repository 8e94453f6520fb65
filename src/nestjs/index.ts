export { type DecoratorOf, JobHandler, LeaderTask, Schedule } from './decorators.js'
export { HoldfastModule, type HoldfastModuleAsyncOptions } from './module.js'
export type { HoldfastModuleOptions } from './options.js'
