import { messageOf } from '../../base/index.js'
import { Observer, type Overview } from '../../observe/index.js'
import { checkSchema, schemaState } from '../../postgres/index.js'
import type { ConnectedDatabase } from '../connect.js'
import type { DatabaseOverview, OverviewOfSeveral } from '../documents.js'
import type { WatchedDatabase } from './view.js'

const queryTimeoutMs = 10_000

/** Reads the overviews of one database. */
export interface OverviewSource {
  /** Null if the only database has no name. */
  readonly name: string | null
  readonly address: string
  readonly read: () => Promise<Overview>
}

/** Returns a source that checks the schema before the first overview. */
export function overviewSource(
  { name, database }: ConnectedDatabase,
  schema: string,
  namespace: string | undefined,
): OverviewSource {
  const observer = new Observer(
    { read: <Row>(text: string, values?: readonly unknown[]) => database.read<Row>(text, values, queryTimeoutMs) },
    schema,
  )
  let isChecked = false
  const read = async () => {
    if (!isChecked) checkSchema(await schemaState({ query: database.read }, schema), schema)
    isChecked = true
    return observer.overview({ namespace })
  }
  return { name, address: database.address, read }
}

/** Waits until the first database responds. Throws if no database responds. */
export async function readFirst(sources: readonly OverviewSource[]): Promise<WatchedDatabase[]> {
  const overviews: (Overview | undefined)[] = []
  const reads = sources.map(async ({ read }, at) => {
    overviews[at] = await read()
  })
  await Promise.any(reads).catch((error: AggregateError) => {
    throw error.errors[0]
  })
  return sources.map(({ name, address }, at) => ({ name, address, overview: overviews[at], outage: undefined }))
}

/** Reads all databases. Throws if no database responds. */
export async function readAll(sources: readonly OverviewSource[]): Promise<OverviewOfSeveral> {
  const errors: unknown[] = []
  const reads = sources.map(async ({ name, read }): Promise<DatabaseOverview> => {
    try {
      return { name: name!, overview: await read(), error: null }
    } catch (error) {
      errors.push(error)
      return { name: name!, overview: null, error: messageOf(error) }
    }
  })
  const databases = await Promise.all(reads)
  if (errors.length === sources.length) throw errors[0]
  return { databases }
}
