// Tests jobs, schedules and leader tasks of decorated methods in real NestJS applications.
import { Controller, Injectable, Module } from '@nestjs/common'
import { expect, test } from 'vitest'
import {
  type BatchJob,
  defineJob,
  Holdfast,
  type JobContext,
  JobOutcome,
  type Leadership,
  type ScheduleRun,
} from '../../src/index.js'
import { HoldfastModule, JobHandler, LeaderTask, Schedule } from '../../src/nestjs/index.js'
import { sql, until } from '../setup/facts.js'
import { databaseUrl } from '../setup/instances.js'
import { start, startWith } from './fixture.js'

const greet = defineJob<{ name: string }, string>('greet')
const sum = defineJob<{ n: number }, number>('sum')
const twice = defineJob<number, number>('twice')

@Injectable()
class Greetings {
  readonly greeting = 'Hello'
}

@Injectable()
class GreetingHandlers {
  constructor(private readonly greetings: Greetings) {}

  @JobHandler(greet)
  async greet({ name }: { name: string }, { attempt, tx }: JobContext) {
    const { rows } = await tx.query<{ name: string }>('select upper($1) as name', [name])
    return `${this.greetings.greeting} ${rows[0]!.name}, attempt ${attempt}`
  }

  @JobHandler(sum, { batch: { size: 10 } })
  sum(jobs: readonly BatchJob<{ n: number }>[]) {
    return jobs.map(({ input: { n } }) => (n < 0 ? JobOutcome.discard('negative') : n + this.greetings.greeting.length))
  }
}

@Controller()
class Calculator {
  @JobHandler(twice)
  twice(n: number) {
    return 2 * n
  }
}

@Injectable()
class Shop {
  constructor(readonly holdfast: Holdfast) {}
}

/** Does not import the module of Holdfast, which is global. */
@Module({ providers: [Shop] })
class ShopModule {}

test('jobs run in methods of providers and controllers, with injected services', async () => {
  const url = await databaseUrl()
  const contents = {
    imports: [ShopModule],
    providers: [Greetings, GreetingHandlers, { provide: 'alias', useExisting: GreetingHandlers }],
    controllers: [Calculator],
  }
  const app = await startWith({ url, namespace: 'shop', work: { concurrency: 5 } }, contents)
  const { jobs, namespace } = app.get(Shop, { strict: false }).holdfast
  expect(namespace).toBe('shop')
  expect(await jobs.result(await jobs.enqueue(greet, { name: 'ada' }))).toBe('Hello ADA, attempt 1')
  expect(await jobs.result(await jobs.enqueue(twice, 21))).toBe(42)
  const [seven, negative] = await jobs.enqueueMany(sum, [{ n: 2 }, { n: -1 }])
  expect(await jobs.result(seven!)).toBe(7)
  await expect(jobs.result(negative!)).rejects.toMatchObject({ code: 'JOB_FAILED', state: 'discarded' })
})

test('schedules and leader tasks run in methods of providers', async () => {
  const calls: string[] = []

  @Injectable()
  class Tasks {
    readonly calls = calls

    @Schedule('every-second', { every: '1s' })
    async tick({ name, tick }: ScheduleRun) {
      this.calls.push(`${name} ${tick instanceof Date}`)
    }

    @LeaderTask('indexer', { preferred: true })
    async lead({ name, signal }: Leadership) {
      this.calls.push(name)
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      this.calls.push('stepped down')
    }
  }

  const app = await startWith({ url: await databaseUrl(), work: true }, { providers: [Tasks] })
  await until('the schedule has run', () => calls.includes('every-second true'))
  await until('the leader task has started', () => calls.includes('indexer'))
  expect(await app.get(Holdfast).elections.leader('indexer')).toMatchObject({ instance: app.get(Holdfast).id })
  await app.close()
  expect(calls).toContain('stepped down')
})

test('an application without the `work` option enqueues jobs and runs none', async () => {
  const url = await databaseUrl()
  const web = await startWith({ url }, { providers: [Greetings, GreetingHandlers] })
  const { jobs } = web.get(Holdfast)
  const job = await jobs.enqueue(greet, { name: 'ada' })
  expect(await sql(url, 'select from holdfast.worker')).toEqual([])
  await startWith({ url, work: true }, { providers: [Greetings, GreetingHandlers] })
  expect(await jobs.result(job)).toBe('Hello ADA, attempt 1')
})

test('a subclass inherits the decorated methods and may override them', async () => {
  class Base {
    @JobHandler(twice)
    twice(n: number) {
      return 2 * n
    }

    @JobHandler(greet)
    greet({ name }: { name: string }) {
      return name
    }
  }
  class Derived extends Base {
    override twice(n: number) {
      return 2 * n + 1
    }

    @JobHandler(greet)
    override greet({ name }: { name: string }) {
      return `derived ${name}`
    }
  }
  const app = await startWith(
    { url: await databaseUrl(), work: true },
    { providers: [{ provide: 'made by a factory', useFactory: () => new Derived() }] },
  )
  const { jobs } = app.get(Holdfast)
  expect(await jobs.result(await jobs.enqueue(twice, 1))).toBe(3)
  expect(await jobs.result(await jobs.enqueue(greet, { name: 'ada' }))).toBe('derived ada')
})

test('forRootAsync passes providers to the factory, and the logger of NestJS receives the log', async () => {
  @Module({ providers: [{ provide: 'url', useFactory: databaseUrl }], exports: ['url'] })
  class SettingsModule {}

  const lines: string[] = []
  class Failing {
    @JobHandler(greet)
    greet(): string {
      throw new Error('no greeting today')
    }
  }
  const app = await start({
    imports: [
      HoldfastModule.forRootAsync({
        imports: [SettingsModule],
        inject: ['url'],
        useFactory: async (url: string) => ({ url, namespace: 'async', work: { queues: ['default'] } }),
      }),
    ],
    providers: [Failing],
  })
  const collect = (line: unknown) => void lines.push(String(line))
  app.useLogger({ log: collect, warn: collect, error: collect })
  const { jobs, namespace } = app.get(Holdfast)
  expect(namespace).toBe('async')
  await jobs.enqueue(greet, { name: 'ada' })
  await until('the log has a line about the failed job', () => lines.some((line) => line.includes('no greeting today')))
})
