import { sql, until } from '../setup/facts.js'

/** Waits until at least `count` requests wait for a limit in the database. */
export async function untilQueued(url: string, name: string, count: number, namespace = 'default'): Promise<void> {
  await until(`${count} requests wait for ${name}`, async () => {
    const [row] = await sql<{ waiting: number }>(
      url,
      'select waiting from holdfast.limit_state where name = $1 and namespace = $2',
      [name, namespace],
    )
    return row !== undefined && row.waiting >= count
  })
}

/** Returns whether no permit is granted or waited for, and all counters are 0. */
export async function nothingInUse(url: string): Promise<boolean> {
  const [row] = await sql<{ nothing: boolean }>(
    url,
    `select not exists (select from holdfast.permit where weight > 0)
        and not exists (select from holdfast.limit_state where in_use <> 0 or waiting <> 0) as nothing`,
  )
  return row!.nothing
}
