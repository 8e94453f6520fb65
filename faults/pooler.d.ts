export interface PoolerOptions {
  mode?: 'transaction' | 'session'
  /** How many backends it opens for each database. */
  backends?: number
  /** Hands out the backend that has rested longest; otherwise the one that was used last. */
  roundRobin?: boolean
}

export interface Pooler {
  /** The same database, through the pooler. */
  through(url: string): string
  /** Killed, and started again. */
  restart(): Promise<void>
  /** Ends it, as a crash would. */
  stop(): Promise<void>
}

export const hasPgBouncer: boolean
export function startPooler(url: string, options?: PoolerOptions): Promise<Pooler>
