import type pg from 'pg'
import type { Holdfast } from '../../index.js'

/** What a department finds on its desk: what any application has, and somebody who tells the story. */
export interface DepartmentContext {
  readonly holdfast: Holdfast
  readonly pool: pg.Pool
  /** The name of this instance, written beside each effect. */
  readonly name: string
  /** Answers the requests to a path of this instance's web server. */
  serve(path: string, handler: (request: Request) => Promise<Response>): void
  /** Takes a turn after each such pause, a bit more or less, until this instance closes. */
  repeat(pauseMs: number, turn: () => Promise<unknown>): void
  /** Tells that some work begins and ends here, such as `invoice 42`. For who watches; nothing depends on it. */
  record<T>(kind: string, subject: unknown, run: () => Promise<T>): Promise<T>
}

/** A transaction of the application's own: what `run` throws undoes it. */
export async function transaction<T>(pool: pg.Pool, run: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect()
  // A session may end at any time. The query that fails says so; without a listener, the process would end, too.
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
