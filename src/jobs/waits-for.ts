/** Why a job does not run yet. `text` says it to people. */
export type WaitsFor = { readonly text: string } & (
  | { readonly reason: 'time' | 'attempt'; readonly until: Date }
  /** Its queue is paused. */
  | { readonly reason: 'pause'; readonly since: Date }
  /** Other jobs have to end, or to be retried. None when all have ended, and the job is about to be released or cancelled. */
  | { readonly reason: 'jobs'; readonly jobs: readonly { readonly id: number; readonly state: string }[] }
  /** Its lane is full. `ahead`: how many are parked before it, of 10,000 at most. */
  | {
      readonly reason: 'lane'
      readonly lane: string
      readonly max: number
      readonly running: readonly { readonly id: number; readonly instance: string | undefined }[]
      readonly ahead: number
    }
  /** The rate of its lane. */
  | { readonly reason: 'rate'; readonly lane: string; readonly until: Date; readonly ahead: number }
  /** No worker serves its queue; or, with `kind`, none of the workers that serve the queue has a definition of its kind. */
  | { readonly reason: 'worker'; readonly unserved: 'queue' | 'kind' }
  /** It will be claimed; so many stand before it, of 10,000 at most. */
  | { readonly reason: 'turn'; readonly ahead: number }
)

export interface WaitsForRow {
  readonly stage: 'time' | 'jobs' | 'lane' | 'ready'
  readonly kind: string
  readonly run_at: Date | null
  readonly is_due: boolean
  readonly failed: number
  readonly paused_at: Date | null
  readonly unserved: 'queue' | 'kind' | null
  readonly ahead: number
  readonly lane: string | null
  readonly max: number | null
  readonly active: number | null
  readonly free_at: Date | null
  readonly running: { id: number; instance: string | null }[] | null
  readonly jobs: { id: number; state: string }[] | null
}

export function waitsForOf(row: WaitsForRow): WaitsFor {
  const { stage, run_at: until, paused_at: since, ahead } = row
  if (stage === 'time' && !row.is_due && until !== null) {
    const what = row.failed > 0 ? 'its next attempt' : 'its time'
    return { reason: row.failed > 0 ? 'attempt' : 'time', until, text: `${what}, until ${until.toISOString()}` }
  }
  if (stage === 'jobs') {
    const jobs = row.jobs ?? []
    const listed = jobs.map(({ id, state }) => `${id} (${state})`).join(', ')
    return {
      reason: 'jobs',
      jobs,
      text: jobs.length > 0 ? `others: ${listed}` : 'its release: the jobs before it have ended',
    }
  }
  if (stage === 'lane' && row.lane !== null) {
    const [lane, max] = [row.lane, row.max ?? 1]
    if (row.free_at !== null && (row.active ?? 0) < max) {
      const text = `the rate of its lane ${lane}, until ${row.free_at.toISOString()} at least, behind ${many(ahead)}`
      return { reason: 'rate', lane, until: row.free_at, ahead, text }
    }
    const running = (row.running ?? []).map(({ id, instance }) => ({ id, instance: instance ?? undefined }))
    const who = running.map(({ id }) => id).join(', ')
    const text = `its lane ${lane}, where ${row.active ?? 0} of ${max} have their places: ${who}; behind ${many(ahead)}`
    return { reason: 'lane', lane, max, running, ahead, text }
  }
  if (since !== null) return { reason: 'pause', since, text: `the queue, which is paused since ${since.toISOString()}` }
  if (row.unserved === 'queue') return { reason: 'worker', unserved: 'queue', text: 'a worker: none serves its queue' }
  if (row.unserved === 'kind') {
    const text = `a worker: none of those that serve its queue has the kind ${row.kind}`
    return { reason: 'worker', unserved: 'kind', text }
  }
  return { reason: 'turn', ahead, text: ahead === 0 ? 'its turn, which is next' : `its turn, behind ${many(ahead)}` }
}

function many(ahead: number): string {
  return ahead === 1 ? '1 other' : `${ahead === 10_000 ? 'at least 10,000' : ahead} others`
}
