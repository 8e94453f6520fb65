// Finds an application's decorated methods, and starts their jobs, schedules and campaigns.
import { Logger } from '@nestjs/common'
import type { DiscoveryService } from '@nestjs/core'
import { UsageError } from '../base/index.js'
import type { Holdfast, WorkOptions } from '../index.js'
import { decoratedClasses, type RunMethod, type Task, tasksOf } from './decorators.js'

type InstanceWrapper = ReturnType<DiscoveryService['getProviders']>[number]

/** A task with the method that runs it. */
interface Handler {
  readonly task: Task
  /** Name of the method for messages, such as `MailHandlers.send of MailModule`. */
  readonly place: string
  readonly run: RunMethod
}

/** Starts all tasks of the application. If the registrations are invalid, throws before it starts any task. */
export function startHandlers(holdfast: Holdfast, discovery: DiscoveryService, options: WorkOptions | undefined): void {
  const handlers = findHandlers(discovery)
  checkNames(handlers)
  const jobs = handlers.flatMap(({ task, run }) => (task.type === 'job' ? [task.define(run)] : []))
  for (const { task, run } of handlers) {
    if (task.type === 'schedule') holdfast.schedules.add(task.define(run))
    else if (task.type === 'leader task') holdfast.elections.campaign(task.name, task.options ?? {}, run)
  }
  if (jobs.length > 0) holdfast.jobs.work(jobs, options)
}

function findHandlers(discovery: DiscoveryService): Handler[] {
  const handlers: Handler[] = []
  const missing = new Set(decoratedClasses())
  // An alias (`useExisting`) is a second wrapper of the same instance.
  const seen = new Set<object>()
  for (const wrapper of [...discovery.getProviders(), ...discovery.getControllers()]) {
    const prototype: object | undefined = (wrapper.metatype as { prototype?: object } | null)?.prototype
    const isSingleton = !wrapper.isTransient && wrapper.isDependencyTreeStatic()
    const instance: unknown = isSingleton ? wrapper.instance : prototype && Object.create(prototype)
    if (typeof instance !== 'object' || instance === null) continue
    for (const one of missing) if (isInstanceOf(instance, one.prototype)) missing.delete(one)
    if (seen.has(instance)) continue
    seen.add(instance)
    const tasks = tasksOf(instance)
    if (tasks.length > 0 && !isSingleton) throw notSingleton(wrapper)
    handlers.push(...tasks.map(({ method, task }) => handlerOf(wrapper, instance, method, task)))
  }
  const names = [...missing].map(({ name }) => name)
  if (handlers.length === 0) throw noHandlers(names)
  for (const name of names) {
    new Logger('Holdfast').warn(`${name} has decorated methods, but is not a provider of this application. ${remedy}`)
  }
  return handlers
}

const remedy = 'To run its methods here, add the class to the `providers` of a module that the application imports.'

function isInstanceOf(instance: object, prototype: object): boolean {
  return Object.prototype.isPrototypeOf.call(prototype, instance)
}

function handlerOf(wrapper: InstanceWrapper, instance: object, method: string | symbol, task: Task): Handler {
  const module = wrapper.host?.name
  const place = `${instance.constructor.name}.${String(method)}${module ? ` of ${module}` : ''}`
  const methods = instance as Record<string | symbol, RunMethod>
  return { task, place, run: (...given) => methods[method]!(...given) }
}

/** Throws if two methods have tasks with the same name. */
function checkNames(handlers: readonly Handler[]): void {
  const places = new Map<string, string>()
  for (const { task, place } of handlers) {
    const what = `${task.type} "${task.name}"`
    const first = places.get(what)
    if (first !== undefined) {
      throw new UsageError(
        `The ${what} has two methods: ${first} and ${place}`,
        first.split(' of ')[0] === place.split(' of ')[0]
          ? 'List the class in the `providers` of one module only. Other modules import that module.'
          : 'Remove one of the decorators, or give one of the tasks another name.',
      )
    }
    places.set(what, place)
  }
}

function notSingleton(wrapper: InstanceWrapper): UsageError {
  return new UsageError(
    `Expected ${wrapper.name} to have one instance, because its methods are decorated, but it is request-scoped or transient`,
    'Remove the scope from the provider and from the providers that it injects. The method receives the data of each job as its input.',
  )
}

function noHandlers(decorated: readonly string[]): UsageError {
  return decorated.length === 0
    ? new UsageError(
        'The `work` option is set, but no method of a provider has @JobHandler, @Schedule or @LeaderTask',
        'Decorate a method of a provider, or remove the `work` option in processes that only enqueue jobs.',
      )
    : new UsageError(
        `The \`work\` option is set, but none of the decorated classes is a provider: ${decorated.join(', ')}`,
        remedy,
      )
}
