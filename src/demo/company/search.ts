import { setTimeout as pause } from 'node:timers/promises'
import type { Leadership } from '../../index.js'
import { type DepartmentContext, transaction } from './department.js'

/** Fills the search index on the elected leader. `guard` rejects a former leader's writes. */
export function search({ holdfast, pool, name, record }: DepartmentContext): void {
  const index = ({ signal, term, guard }: Leadership) =>
    record('index', 'of search', async () => {
      while (!signal.aborted) {
        await transaction(pool, async (client) => {
          await guard(client)
          await client.query(
            `insert into indexed (document, term, written_by)
             select id, $1, $2 from document
             where id > (select coalesce(max(document), 0) from indexed)
             order by id limit 10`,
            [term, name],
          )
        })
        await pause(300, undefined, { signal })
      }
    })
  holdfast.elections.campaign('indexer', index)
}
