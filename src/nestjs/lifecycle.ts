import type { BeforeApplicationShutdown, OnApplicationBootstrap, OnApplicationShutdown } from '@nestjs/common'
import type { DiscoveryService } from '@nestjs/core'
import type { Holdfast } from '../index.js'
import { startHandlers } from './handlers.js'
import type { Settings } from './options.js'

/** Starts, drains and closes the instance of an application. */
export class Lifecycle implements OnApplicationBootstrap, BeforeApplicationShutdown, OnApplicationShutdown {
  readonly #holdfast: Holdfast
  readonly #settings: Settings
  readonly #discovery: DiscoveryService

  constructor(holdfast: Holdfast, settings: Settings, discovery: DiscoveryService) {
    this.#holdfast = holdfast
    this.#settings = settings
    this.#discovery = discovery
  }

  /** Closes the instance if the registrations are invalid, because NestJS runs no shutdown hooks after a failed start. */
  async onApplicationBootstrap(): Promise<void> {
    const { work } = this.#settings
    if (!work) return
    try {
      startHandlers(this.#holdfast, this.#discovery, work === true ? undefined : work)
    } catch (error) {
      await this.#holdfast.close()
      throw error
    }
  }

  /**
   * The application is still handling requests. Until these requests have finished, they can use locks, leases and
   * enqueues.
   */
  async beforeApplicationShutdown(): Promise<void> {
    await this.#holdfast.drain({ within: this.#settings.drainWithin })
  }

  /** The application has handled its last request. */
  async onApplicationShutdown(): Promise<void> {
    await this.#holdfast.close()
  }
}
