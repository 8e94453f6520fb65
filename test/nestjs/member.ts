// An application with one job. The job ends when the test sends the message `finish`. Node.js cannot load decorators, so this program calls them.
import { once } from 'node:events'
import { Inject, Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { defineJob } from 'holdfast'
import { HoldfastModule, JobHandler } from 'holdfast/nestjs'
import { patiently } from '../setup/patiently.ts'

const { url, name }: { url: string; name: string } = JSON.parse(process.argv[2]!)

class Reporter {
  report(message: object): void {
    process.send!({ name, ...message })
  }
}

class Handlers {
  readonly reporter: Reporter

  constructor(reporter: Reporter) {
    this.reporter = reporter
  }

  async wait(_: null, { id, attempt }: { id: number; attempt: number }): Promise<string> {
    this.reporter.report({ started: id, attempt })
    await once(process, 'message')
    return name
  }
}
Inject(Reporter)(Handlers, undefined, 0)
const { prototype } = Handlers
JobHandler(defineJob<null, string>('wait'))(prototype, 'wait', Object.getOwnPropertyDescriptor(prototype, 'wait')!)

class AppModule {}
Module({
  imports: [HoldfastModule.forRoot({ url, name, work: true, drainWithin: '20s', log: false })],
  providers: [Reporter, Handlers],
})(AppModule)

const settings = { logger: false, abortOnError: false } as const
const app = await patiently(() => NestFactory.createApplicationContext(AppModule, settings))
app.enableShutdownHooks(['SIGTERM'])
process.send!({ name, open: true })
