import { Logger as NestLogger } from '@nestjs/common'
import { closeOptionRules, type Duration, readOptions } from '../base/index.js'
import type { HoldfastOptions, Logger, WorkOptions } from '../index.js'

export interface HoldfastModuleOptions extends HoldfastOptions {
  /**
   * Whether this process runs the application's decorated methods (`@JobHandler`, `@Schedule`, `@LeaderTask`). Pass an
   * object instead of `true` to set the worker's options. The default is false: the process only enqueues jobs and uses
   * locks, limits and once.
   */
  work?: boolean | WorkOptions | undefined
  /** Maximum time that a shutdown waits for running work. The default is `30s`. */
  drainWithin?: Duration | undefined
}

export type Settings = ReturnType<typeof readSettings>

const rules = {
  work: {
    expected: 'true, false, or an object with worker options',
    hint: 'For example: work: { concurrency: 50 }',
    read: (given: unknown) =>
      typeof given === 'boolean' || (typeof given === 'object' && given !== null)
        ? (given as boolean | WorkOptions)
        : undefined,
  },
  drainWithin: closeOptionRules.within,
}

/** Separates the module's options from the instance's options, which `Holdfast.open` checks. */
export function readSettings(options: HoldfastModuleOptions) {
  const { work, drainWithin, ...instance } = { ...options }
  const read = readOptions('HoldfastModule', { work, drainWithin }, rules)
  const withLog: HoldfastOptions = { log: nestLog(), ...instance }
  return { work: read.work ?? false, drainWithin: read.drainWithin, instance: withLog }
}

/** The logger of the application, which `NestFactory.create(…, { logger })` configures. */
function nestLog(): Logger {
  const logger = new NestLogger('Holdfast')
  return {
    info: (line) => logger.log(line),
    warn: (line) => logger.warn(line),
    error: (line) => logger.error(line),
  }
}
