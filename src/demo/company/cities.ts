import { setTimeout as pause } from 'node:timers/promises'
import type { OwnedResource } from '../../index.js'
import { type DepartmentContext, transaction } from './department.js'

export const cityNames = ['Accra', 'Bergen', 'Cusco', 'Delft', 'Essaouira', 'Fukuoka', 'Galway', 'Hobart']

/**
 * Assigns numbers to the buildings in each city. The instances divide the cities among themselves. Each city has
 * exactly one owner: the instance that reads the last number and writes the next numbers. `guard` rejects a former
 * owner's writes.
 */
export function cities({ holdfast, pool, name, record }: DepartmentContext): void {
  const number = (city: string, { signal, guard }: OwnedResource) =>
    record('city', city, async () => {
      while (!signal.aborted) {
        await transaction(pool, async (client) => {
          await guard(client)
          const last = await client.query('select coalesce(max(number), 0) as number from building where city = $1', [
            city,
          ])
          const next = await client.query(
            'select id from building where city = $1 and number is null order by id limit 5',
            [city],
          )
          await pause(20)
          await client.query(
            `update building set number = $1 + place, written_by = $3
             from unnest($2::integer[]) with ordinality as batch (id, place)
             where building.id = batch.id`,
            [last.rows[0].number, next.rows.map(({ id }) => id), name],
          )
        })
        await pause(1_000, undefined, { signal })
      }
    })
  holdfast.shares.assign('cities', cityNames, number)
}
