import { type DynamicModule, Module, type ModuleMetadata, type Provider } from '@nestjs/common'
import { DiscoveryModule, DiscoveryService } from '@nestjs/core'
import { describe, UsageError } from '../base/index.js'
import { Holdfast } from '../index.js'
import { Lifecycle } from './lifecycle.js'
import { type HoldfastModuleOptions, readSettings, type Settings } from './options.js'

export interface HoldfastModuleAsyncOptions {
  /** Modules that export the providers in `inject`. */
  imports?: ModuleMetadata['imports']
  /** Providers that `useFactory` receives as its arguments. */
  inject?: Extract<Provider, { useFactory: unknown }>['inject']
  /** Returns the options of the module. */
  useFactory: (...providers: never[]) => HoldfastModuleOptions | Promise<HoldfastModuleOptions>
}

/**
 * Module that opens a Holdfast instance for a NestJS application. All providers can inject the instance by its class
 * `Holdfast`. The module drains the instance before the application stops, and then closes the instance.
 *
 * @example
 * import { HoldfastModule } from 'holdfast/nestjs'
 *
 * const settings = { url: process.env.DATABASE_URL, namespace: 'shop', work: { concurrency: 10 } }
 * const app = await NestFactory.createApplicationContext(HoldfastModule.forRoot(settings))
 */
export class HoldfastModule {
  /**
   * Returns the module with these options. Import it in the root module only.
   *
   * @example
   * import { HoldfastModule } from 'holdfast/nestjs'
   *
   * HoldfastModule.forRoot({ url: process.env.DATABASE_URL, namespace: 'shop' })
   */
  static forRoot(options: HoldfastModuleOptions): DynamicModule {
    return moduleWith({ useFactory: () => options })
  }

  /**
   * Returns the module with options that depend on other providers, such as a pool or a configuration service.
   *
   * @example
   * import { HoldfastModule } from 'holdfast/nestjs'
   * import pg from 'pg'
   *
   * HoldfastModule.forRootAsync({
   *   imports: [DatabaseModule],
   *   inject: [pg.Pool],
   *   useFactory: (pool: pg.Pool) => ({ pool, namespace: 'shop', work: true }),
   * })
   */
  static forRootAsync(options: HoldfastModuleAsyncOptions): DynamicModule {
    if (typeof options?.useFactory !== 'function') {
      throw new UsageError(
        `Expected useFactory to be a function, got ${describe(options?.useFactory)}`,
        'For example: HoldfastModule.forRootAsync({ inject: [Pool], useFactory: (pool) => ({ pool }) })',
      )
    }
    return moduleWith(options)
  }
}

/**
 * Module that contains the instance. The outer module is global, so that all modules can inject the instance. NestJS
 * stops global modules last, after the modules that they import. This module is not global, so NestJS stops it before
 * the modules that its options import, such as the module that ends the pool.
 */
class HoldfastInstanceModule {}
Module({})(HoldfastModule)
Module({})(HoldfastInstanceModule)

/** Token of the checked options. */
const settingsToken = Symbol('Holdfast settings')

function moduleWith({ imports = [], inject = [], useFactory }: HoldfastModuleAsyncOptions): DynamicModule {
  const readOptions = useFactory as (...providers: unknown[]) => HoldfastModuleOptions | Promise<HoldfastModuleOptions>
  const instance: DynamicModule = {
    module: HoldfastInstanceModule,
    imports: [DiscoveryModule, ...imports],
    providers: [
      {
        provide: settingsToken,
        inject: [DiscoveryService, ...inject],
        useFactory: async (discovery: DiscoveryService, ...providers: unknown[]) => {
          checkSingleImport(discovery)
          return readSettings(await readOptions(...providers))
        },
      },
      {
        provide: Holdfast,
        inject: [settingsToken],
        useFactory: (settings: Settings) => Holdfast.open(settings.instance),
      },
      {
        provide: Lifecycle,
        inject: [Holdfast, settingsToken, DiscoveryService],
        useFactory: (holdfast: Holdfast, settings: Settings, discovery: DiscoveryService) =>
          new Lifecycle(holdfast, settings, discovery),
      },
    ],
    exports: [Holdfast],
  }
  return { module: HoldfastModule, global: true, imports: [instance], exports: [instance] }
}

/** Throws before an instance opens if the application contains this module twice. */
function checkSingleImport(discovery: DiscoveryService): void {
  const lifecycles = discovery.getProviders().filter(({ token }) => token === Lifecycle)
  if (lifecycles.length === 1) return
  throw new UsageError(
    'The application imports HoldfastModule.forRoot or HoldfastModule.forRootAsync more than once',
    'Import the module in the root module only. All other modules can inject Holdfast without an import.',
  )
}
