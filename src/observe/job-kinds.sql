-- Kinds of jobs that workers have registered.

-- name: job_kinds
-- Returns at most $4 kinds of jobs in a namespace ($1), in a queue ($2) and with a name ($3). Null means all
-- namespaces, queues or names. With $5, also returns the JSON schemas of their inputs. Uses the index queue_pkey.
with worker as materialized (
  select unnest(queues) as queue, kinds from holdfast.job_active_workers()
)
select json_build_object(
  'rows', (
    select json_agg(k)
    from (
      select
        queue.namespace,
        queue.name as queue,
        job_kind.kind,
        case when $5::boolean then job_kind.input_schema end as "inputSchema",
        exists (select from worker where worker.queue = job_kind.queue and job_kind.kind = any(worker.kinds)) as "isServed"
      from holdfast.job_kind
      join holdfast.queue on queue.key = job_kind.queue
      where ($1::text is null or queue.namespace = $1)
        and ($2::text is null or queue.name = $2)
        and ($3::text is null or job_kind.kind = $3)
      order by queue.namespace, job_kind.kind, queue.name
      limit $4::integer
    ) as k
  )
) as answer
