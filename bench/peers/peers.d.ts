// Declares the parts of the peers' interfaces that the bench uses, because the type check runs without the peers.

declare module '@dbos-inc/dbos-sdk' {
  interface Logger {
    error(...args: unknown[]): void
    warn(...args: unknown[]): void
    info(...args: unknown[]): void
    debug(...args: unknown[]): void
  }

  interface Connection {
    systemDatabaseUrl: string
    systemDatabasePoolSize?: number | undefined
    logger: Logger
  }

  export const DBOS: {
    registerWorkflow<Input>(run: (input: Input) => Promise<unknown>, options: { name: string }): unknown
    setConfig(config: Connection & { name: string; listenQueues: string[] }): void
    launch(): Promise<void>
    shutdown(): Promise<void>
    registerQueue(
      name: string,
      options: { minPollingIntervalMs?: number; workerConcurrency?: number; onConflict: 'always_update' },
    ): Promise<void>
  }

  export class DBOSClient {
    static create(options: Connection & { applicationName: string }): Promise<DBOSClient>
    enqueue(
      options: { queueName: string; workflowName: string; delaySeconds?: number },
      input: unknown,
    ): Promise<unknown>
    destroy(): Promise<void>
  }
}

declare module 'advisory-lock' {
  interface Mutex {
    tryLock(): Promise<(() => Promise<void>) | undefined>
  }

  const advisoryLock: { default(url: string): (name: string) => Mutex }
  export default advisoryLock
}

declare module 'bullmq' {
  import type { Redis } from 'ioredis'

  type Connection = Redis | { connectionString: string; migrate: boolean }

  interface Job<Data> {
    data: Data
  }

  type Backend = (...args: never[]) => object

  export const createPostgresBackend: Backend

  export class Queue {
    constructor(name: string, options: { connection: Connection }, backend?: Backend)
    waitUntilReady(): Promise<unknown>
    add(name: string, data: unknown): Promise<unknown>
    addBulk(jobs: { name: string; data: unknown; opts: { delay?: number } }[]): Promise<unknown>
    close(): Promise<void>
  }

  export class Worker<Data> {
    constructor(
      name: string,
      run: (job: Job<Data>) => unknown,
      options: { connection: Connection; concurrency?: number },
      backend?: Backend,
    )
    on(event: 'error', listener: (error: Error) => void): this
    waitUntilReady(): Promise<unknown>
    close(force: boolean): Promise<void>
  }
}

declare module 'ioredis' {
  export class Redis {
    constructor(url: string, options?: { maxRetriesPerRequest: number | null })
    on(event: 'error', listener: (error: Error) => void): this
    info(section: string): Promise<string>
    flushdb(): Promise<unknown>
    disconnect(): void
  }
}

declare module 'redlock' {
  import type { Redis } from 'ioredis'

  export default class Redlock {
    constructor(clients: Redis[], options: { retryCount: number })
    acquire(names: string[], ttlMs: number): Promise<{ release(): Promise<unknown> }>
  }
}
