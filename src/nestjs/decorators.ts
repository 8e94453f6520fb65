import { describe, UsageError } from '../base/index.js'
import {
  type BatchHandler,
  type BatchOptions,
  type CampaignOptions,
  defineSchedule,
  type ImplementedJob,
  implement,
  type JobDefinition,
  type JobHandler as JobHandlerFunction,
  type Leadership,
  type ScheduleDefinition,
  type ScheduleOptions,
  type ScheduleRun,
} from '../index.js'

/** Decorator for methods of this type. With other methods, the program does not compile. */
export type DecoratorOf<Method> = <Given extends Method>(
  target: object,
  name: string | symbol,
  descriptor: TypedPropertyDescriptor<Given>,
) => void

/** Task that a decorator adds to a method. The module starts the tasks in processes that set the `work` option. */
export type Task =
  | { readonly type: 'job'; readonly name: string; define(run: RunMethod): ImplementedJob }
  | { readonly type: 'schedule'; readonly name: string; define(run: RunMethod): ScheduleDefinition }
  | { readonly type: 'leader task'; readonly name: string; readonly options: CampaignOptions | undefined }

/** Calls the decorated method on the provider's instance. */
export type RunMethod = (...given: unknown[]) => unknown

/** Maps the prototype of each decorated class to the tasks of its methods. */
const tasksByPrototype = new WeakMap<object, Map<string | symbol, Task[]>>()
const prototypes = new Set<object>()

/**
 * Runs a definition's jobs with the decorated method, in processes that set the `work` option. The method belongs to a
 * provider or a controller, and receives the job's input and context.
 *
 * @example
 * import { JobHandler } from 'holdfast/nestjs'
 *
 * const sendEmail = defineJob<{ to: string }>('send-email')
 * class MailHandlers { @JobHandler(sendEmail) async send({ to }: { to: string }) { await mailer.send(to) } }
 */
export function JobHandler<Input, Result, Handled>(
  definition: JobDefinition<Input, Result, Handled>,
): DecoratorOf<JobHandlerFunction<Handled, Result>>
/** Runs several jobs per call with the decorated method, which receives a list of jobs. */
export function JobHandler<Input, Result, Handled>(
  definition: JobDefinition<Input, Result, Handled>,
  options: { batch: BatchOptions },
): DecoratorOf<BatchHandler<Handled, Result>>
/** @internal */
export function JobHandler(definition: JobDefinition, options?: { batch: BatchOptions }): DecoratorOf<never> {
  const define = (run: RunMethod) =>
    options
      ? implement(definition, options, run as BatchHandler<unknown, unknown>)
      : implement(definition, run as JobHandlerFunction<unknown, unknown>)
  // Throws for an invalid definition here, so that the stack trace names the class.
  const { kind: name } = define(unused)
  return taskDecorator('JobHandler', { type: 'job', name, define })
}

/**
 * Runs the decorated method at each tick of a schedule, in one process of the fleet. The schedule starts in processes
 * that set the `work` option.
 *
 * @example
 * import { Schedule } from 'holdfast/nestjs'
 *
 * class Reports { @Schedule('nightly-report', { cron: '0 3 * * *' }) async write({ tick }: ScheduleRun) { await report(tick) } }
 */
export function Schedule(name: string, options: ScheduleOptions): DecoratorOf<(run: ScheduleRun) => unknown> {
  const define = (run: RunMethod) => defineSchedule(name, options, run)
  define(unused)
  return taskDecorator('Schedule', { type: 'schedule', name, define })
}

/**
 * Runs the decorated method in one process of the fleet at a time, the elected leader. The campaign starts in processes
 * that set the `work` option.
 *
 * @example
 * import { LeaderTask } from 'holdfast/nestjs'
 *
 * class Indexer { @LeaderTask('indexer') async index({ signal }: Leadership) { while (!signal.aborted) await indexNext() } }
 */
export function LeaderTask(
  name: string,
  options?: CampaignOptions,
): DecoratorOf<(leadership: Leadership) => Promise<unknown> | unknown> {
  return taskDecorator('LeaderTask', { type: 'leader task', name, options })
}

/** Returns the tasks of an object's methods. A method that a subclass overrides without a decorator keeps its tasks. */
export function tasksOf(object: object): { readonly method: string | symbol; readonly task: Task }[] {
  const found = new Map<string | symbol, readonly Task[]>()
  for (let prototype = Object.getPrototypeOf(object); prototype; prototype = Object.getPrototypeOf(prototype)) {
    for (const [method, tasks] of tasksByPrototype.get(prototype) ?? []) {
      if (!found.has(method)) found.set(method, tasks)
    }
  }
  return [...found].flatMap(([method, tasks]) => tasks.map((task) => ({ method, task })))
}

/** Returns the classes in this process that have decorated methods. */
export function decoratedClasses(): { readonly name: string; readonly prototype: object }[] {
  return [...prototypes].map((prototype) => ({ name: prototype.constructor.name, prototype }))
}

function unused(): never {
  throw new Error('This function is only a placeholder for a method until the application has started')
}

function taskDecorator(decorator: string, task: Task): DecoratorOf<never> {
  return (target, method, descriptor) => {
    checkPlace(decorator, target, method, descriptor)
    const tasks = tasksByPrototype.get(target) ?? new Map<string | symbol, Task[]>()
    tasks.set(method, [...(tasks.get(method) ?? []), task])
    tasksByPrototype.set(target, tasks)
    prototypes.add(target)
  }
}

function checkPlace(decorator: string, target: unknown, method: unknown, descriptor: unknown): void {
  const isName = typeof method === 'string' || typeof method === 'symbol'
  if (!isName) {
    throw new UsageError(
      `Expected @${decorator} to receive a class and the name of a method, got ${describe(method)}`,
      'Set experimentalDecorators to true in tsconfig.json, as NestJS requires.',
    )
  }
  const value = (descriptor as PropertyDescriptor | undefined)?.value
  if (typeof target === 'object' && typeof value === 'function') return
  const [what, owner] =
    typeof target === 'function'
      ? ['the static member', target.name]
      : ['the property', (target as object).constructor.name]
  throw new UsageError(
    `Expected @${decorator} on a method, got ${what} ${owner}.${String(method)}`,
    'Decorate a method that is neither static nor a property, because the method runs on the instance of the provider.',
  )
}
