// Tests that mistakes in the registration of the module and of handlers throw errors that say what to do.
import { Injectable, Logger, Module, Scope } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { defineJob, UsageError } from '../../src/index.js'
import { HoldfastModule, type HoldfastModuleOptions, JobHandler, LeaderTask, Schedule } from '../../src/nestjs/index.js'
import { sql } from '../setup/facts.js'
import { databaseUrl } from '../setup/instances.js'
import { rootModule, start, startWith } from './fixture.js'

const mail = defineJob<{ to: string }>('mail')

@Injectable()
class MailHandlers {
  @JobHandler(mail)
  send() {}
}

@Injectable()
class OtherHandlers {
  @JobHandler(mail)
  sendOther() {}
}

let url: string
beforeEach(async () => {
  url = await databaseUrl()
})

/** Expects that an application does not start, and that it leaves no open instance. */
async function expectRefusal(starting: Promise<unknown>, message: RegExp, hint: RegExp) {
  const error = await starting.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(UsageError)
  expect(error).toMatchObject({
    code: 'USAGE',
    message: expect.stringMatching(message),
    hint: expect.stringMatching(hint),
  })
  expect(await sql(url, 'select from holdfast.instance')).toEqual([])
}

test('two methods for the jobs of one definition are refused', async () => {
  await expectRefusal(
    startWith({ url, work: true }, { providers: [MailHandlers, OtherHandlers] }),
    /^The job "mail" has two methods: MailHandlers\.send of AppModule and OtherHandlers\.sendOther of AppModule$/,
    /Remove one of the decorators/,
  )
})

test('a class that is a provider of two modules is refused', async () => {
  @Module({ providers: [MailHandlers] })
  class MailModule {}

  await expectRefusal(
    startWith({ url, work: true }, { imports: [MailModule], providers: [MailHandlers] }),
    /MailHandlers\.send of AppModule and MailHandlers\.send of MailModule|MailHandlers\.send of MailModule and MailHandlers\.send of AppModule/,
    /providers` of one module only/,
  )
})

test('two schedules and two leader tasks with one name are refused', async () => {
  class Twice {
    @Schedule('nightly', { cron: '0 3 * * *' })
    first() {}

    @Schedule('nightly', { cron: '0 4 * * *' })
    second() {}
  }
  class Leaders {
    @LeaderTask('indexer')
    first() {}

    @LeaderTask('indexer')
    second() {}
  }
  await expectRefusal(startWith({ url, work: true }, { providers: [Twice] }), /^The schedule "nightly" has two/, /name/)
  await expectRefusal(
    startWith({ url, work: true }, { providers: [Leaders] }),
    /^The leader task "indexer" has two/,
    /name/,
  )
})

test('a decorated class that is not a provider is refused, or reported if other classes are providers', async () => {
  await expectRefusal(
    startWith({ url, work: true }),
    /none of the decorated classes is a provider: .*MailHandlers/,
    /add the class to the `providers` of a module/,
  )
  const warn = vi.spyOn(Logger.prototype, 'warn')
  onTestFinished(() => warn.mockRestore())
  await startWith({ url, work: true }, { providers: [OtherHandlers] })
  const warnings = warn.mock.calls.map(([line]) => String(line))
  expect(warnings).toContainEqual(expect.stringMatching(/^MailHandlers has decorated methods, but is not a provider/))
  expect(warnings).not.toContainEqual(expect.stringMatching(/^OtherHandlers/))
})

test.each([Scope.REQUEST, Scope.TRANSIENT])('a decorated provider with the scope %s is refused', async (scope) => {
  @Injectable({ scope })
  class Scoped {
    @JobHandler(mail)
    send() {}
  }
  await expectRefusal(
    startWith({ url, work: true }, { providers: [Scoped] }),
    /^Expected Scoped to have one instance/,
    /Remove the scope/,
  )
})

test('a second import of the module is refused', async () => {
  const first = HoldfastModule.forRoot({ url, log: false })
  const second = HoldfastModule.forRoot({ url, log: false, namespace: 'other' })
  await expectRefusal(start({ imports: [first, second] }), /more than once/, /root module only/)
})

test('invalid options are refused before the instance opens', async () => {
  const refused: [options: object, message: RegExp][] = [
    [{ url, work: 'yes' }, /^Expected work to be true, false, or an object with worker options, got "yes"/],
    [{ url, drainWithin: 'soon' }, /^Expected drainWithin to be a duration/],
    [{ url, workers: true }, /has no option "workers"/],
    [{}, /^Expected exactly one of url, pool and sql/],
  ]
  for (const [options, message] of refused) {
    await expect(start({ imports: [HoldfastModule.forRoot(options as HoldfastModuleOptions)] })).rejects.toThrow(
      message,
    )
  }
  expect(() => HoldfastModule.forRootAsync({ useClass: class {} } as never)).toThrow(
    'Expected useFactory to be a function, got undefined',
  )
})

test('invalid options of the worker are refused, and a failed application can be closed', async () => {
  const imports = [HoldfastModule.forRoot({ url, work: { concurrency: 0 }, log: false })]
  const app = await NestFactory.create(rootModule({ imports, providers: [MailHandlers] }), { logger: false })
  await expect(app.init()).rejects.toThrow('Expected concurrency to be a whole number between 1 and 10000, got 0')
  expect(await sql(url, 'select from holdfast.instance')).toEqual([])
  await app.close()
})

test('a decorator refuses wrong arguments and wrong places where the class is declared', () => {
  class Target {
    static method() {}
    property = 7
    method() {}
  }
  const decorate = JobHandler(mail) as (...given: unknown[]) => void
  expect(() => JobHandler(undefined as never)).toThrow('Expected a definition made by defineJob, got undefined')
  expect(() => Schedule('nightly', { cron: 'never' })).toThrow(UsageError)
  expect(() => decorate(Target, 'method', Object.getOwnPropertyDescriptor(Target, 'method'))).toThrow(
    'Expected @JobHandler on a method, got the static member Target.method',
  )
  expect(() => decorate(Target.prototype, 'property', undefined)).toThrow(
    'Expected @JobHandler on a method, got the property Target.property',
  )
  // Arguments of a standard decorator.
  expect(() => decorate(Target.prototype.method, { kind: 'method', name: 'method' })).toThrow(
    expect.objectContaining({ hint: 'Set experimentalDecorators to true in tsconfig.json, as NestJS requires.' }),
  )
})

test('an unreachable database fails the start with the error of Holdfast', async () => {
  const address = new URL(url)
  address.port = '1'
  await expect(startWith({ url: address.href })).rejects.toMatchObject({ code: 'DATABASE_UNREACHABLE' })
})
