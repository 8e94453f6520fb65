/**
 * SQL that records done jobs, as if workers had run them. `rows` is a query with the columns id, queue, kind, payload, enqueued_at,
 * claimed_at and ended_at. The era before the first one makes sure that no claim takes the entries.
 */
export function insertDone(rows: string): string {
  return `
    with given as materialized (${rows}),
    entered as (
      insert into holdfast.job (queue, id, entry, era, priority, kind, payload, entered_at)
      select queue, id, id, -1, 0, kind, payload, enqueued_at from given
    )
    insert into holdfast.job_end (bucket, fence, session, claimed_at, ended_at, is_done, ids)
    select holdfast.job_bucket(id), 0, 0, claimed_at, ended_at, true, array_agg(id order by id)
    from given
    group by holdfast.job_bucket(id), claimed_at, ended_at
    order by ended_at, holdfast.job_bucket(id)`
}
