import { arrayLiteral } from '../postgres/index.js'
import type { RecordedError } from './errors.js'
import type { JobStatus, StatusRow } from './status.js'
import type { JobStore } from './store.js'

/** Job on which another job depended. */
export interface JobParent {
  readonly id: number
  /** Name of the job definition. Undefined if the history no longer contains the job. */
  readonly kind: string | undefined
  readonly state: JobStatus['state'] | 'forgotten'
  /** Value that the job's handler returned. */
  readonly result: unknown
  readonly error: RecordedError | undefined
}

export async function parentsOf(store: JobStore, ids: readonly number[]): Promise<JobParent[]> {
  if (ids.length === 0) return []
  const rows = await store.read<Pick<StatusRow, 'id' | 'kind' | 'state' | 'result' | 'error'>>('states', [
    arrayLiteral(ids),
  ])
  const byId = new Map(rows.map((row) => [Number(row.id), row]))
  return ids.map((id) => {
    const row = byId.get(id)
    if (!row) return { id, kind: undefined, state: 'forgotten', result: undefined, error: undefined }
    const { kind, state, result, error } = row
    return {
      id,
      kind,
      state,
      result: result === null ? undefined : JSON.parse(result),
      error: error === null ? undefined : JSON.parse(error),
    }
  })
}
