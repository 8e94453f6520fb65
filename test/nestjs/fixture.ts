import { type INestApplicationContext, Module, type ModuleMetadata } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { onTestFinished } from 'vitest'
import { HoldfastModule, type HoldfastModuleOptions } from '../../src/nestjs/index.js'

/** Returns a root module with these contents. */
export function rootModule(contents: ModuleMetadata) {
  class AppModule {}
  Module(contents)(AppModule)
  return AppModule
}

/** Starts an application without a web server. Closed when the test has finished. */
export async function start(contents: ModuleMetadata): Promise<INestApplicationContext> {
  const settings = { logger: false, abortOnError: false } as const
  const app = await NestFactory.createApplicationContext(rootModule(contents), settings)
  onTestFinished(() => app.close())
  return app
}

/** Starts an application with an instance and these contents. */
export function startWith(options: HoldfastModuleOptions, { imports = [], ...rest }: ModuleMetadata = {}) {
  return start({ imports: [HoldfastModule.forRoot({ log: false, ...options }), ...imports], ...rest })
}
