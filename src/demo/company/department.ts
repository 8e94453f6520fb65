import type pg from 'pg'
import type { Holdfast } from '../../index.js'

/** Everything that a department needs from its instance. */
export interface DepartmentContext {
  readonly holdfast: Holdfast
  readonly pool: pg.Pool
  /** Name of this instance, written with each effect. */
  readonly name: string
  /** Handles the requests to a path on this instance's web server. */
  serve(path: string, handler: (request: Request) => Promise<Response>): void
  /** Runs a function after each pause of roughly `pauseMs`, until this instance closes. */
  repeat(pauseMs: number, run: () => Promise<unknown>): void
  /** Reports the start and the end of a piece of work, such as `invoice 42`. Only the output of the demo uses the report. */
  record<T>(kind: string, subject: unknown, run: () => Promise<T>): Promise<T>
}

/** Runs `run` in a transaction of the application. An error rolls the transaction back. */
export async function transaction<T>(pool: pg.Pool, run: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect()
  // A session may end at any time. In that case the next query rejects. Without an error listener, the process would
  // exit.
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
