-- Statements that read and remove graphile-worker jobs. Written for the schema graphile_worker, versions 18 to 20.

-- name: version
-- Returns the version, and whether row level security hides rows from this role.
select max(id) as version, row_security_active('graphile_worker._private_jobs') as is_hidden
from graphile_worker.migrations

-- name: lock_next
-- Locks and returns the next waiting jobs after $1, oldest first. Skips locked rows, as graphile-worker does. Returns at most about 4 MB.
-- reason: why a job stays in graphile-worker. In graphile-worker, jobs with lower priority numbers run first, so the sign is inverted. A named queue
-- becomes a lane.
with next as materialized (
  select job.*, task.identifier, line.queue_name, line.locked_at is not null as is_busy
  from graphile_worker._private_jobs as job
  join graphile_worker._private_tasks as task on task.id = job.task_id
  left join graphile_worker._private_job_queues as line on line.id = job.job_queue_id
  where job.is_available
    and ($1::text is null or job.id > $1::text::bigint)
    and ($2::text is null or task.identifier = $2)
  order by job.id
  limit $3::integer
  for update of job skip locked
),
measured as (
  select *, sum(octet_length(payload::text)) over (order by id rows between unbounded preceding and 1 preceding) as bytes_before
  from next
)
select
  id::text as id, identifier as kind, -priority as priority, payload::text as input,
  case when run_at > clock_timestamp() then to_json(run_at) #>> '{}' end as "runAt",
  attempts::integer as failed, key, 'started' as until, queue_name as lane,
  case
    when flags <> '{}' then 'flags'
    when is_busy then 'busy'
    when octet_length(payload::text) > 1000000 or length(key) > 500 then 'large'
  end as reason,
  id::text as place
from measured
where coalesce(bytes_before, 0) < 4000000
order by measured.id

-- name: remove
-- Removes the imported jobs ($1: their ids).
delete from graphile_worker._private_jobs as job
using json_to_recordset($1::text::json) as taken (id bigint)
where job.id = taken.id
returning 1

-- name: count_remaining
-- Counts all jobs. graphile-worker deletes successful jobs, so a finished job has failed permanently.
select
  count(*) filter (where job.is_available)::integer as pending,
  count(*) filter (where job.locked_at is not null)::integer as running,
  count(*) filter (where job.locked_at is null and not job.is_available)::integer as ended
from graphile_worker._private_jobs as job
join graphile_worker._private_tasks as task on task.id = job.task_id
where $1::text is null or task.identifier = $1
