import type pg from 'pg'
import type { Holdfast } from '../../index.js'

/** Everything that a department needs from its instance. */
export interface DepartmentContext extends CompanyContext {
  readonly holdfast: Holdfast
}

/** Everything that a department without Holdfast needs from its instance. */
export interface CompanyContext {
  readonly pool: pg.Pool
  /** Name of this instance, written with each effect. */
  readonly name: string
  /** Registers the handler for a path on this instance's web server. */
  serve(path: string, handler: (request: Request) => Promise<Response>): void
  /** Runs a function repeatedly, after pauses of roughly `pauseMs`, until this instance closes. */
  repeat(pauseMs: number, run: () => Promise<unknown>): void
  /**
   * Runs a work item, such as `invoice 42`, and reports its start and end. The reports are used only for the demo's
   * output.
   */
  record<T>(kind: string, subject: unknown, run: () => Promise<T>): Promise<T>
}

/** Runs `run` in one of the application's transactions. Rolls the transaction back if `run` throws an error. */
export async function transaction<T>(pool: pg.Pool, run: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect()
  // If the session ends, the next query rejects. Without this error listener, the process would also exit.
  const ignore = () => {}
  client.on('error', ignore)
  let broken: Error | undefined
  try {
    await client.query('begin')
    const result = await run(client)
    await client.query('commit')
    return result
  } catch (error) {
    await client.query('rollback').catch((lost: Error) => {
      broken = lost
    })
    throw error
  } finally {
    client.off('error', ignore)
    client.release(broken)
  }
}
