-- What graphile-worker keeps, as whoever moves its jobs to Holdfast reads and takes it. Written for the schema graphile_worker, of the
-- versions 18 to 20.

-- name: version
-- Which it is, and whether policies hide rows from this role.
select max(id) as version, row_security_active('graphile_worker._private_jobs') as is_hidden
from graphile_worker.migrations

-- name: take
-- The next jobs that wait, after $1, in the order in which they came: locked until the transaction ends. What somebody else has locked
-- is passed by, as its workers do. Why: what keeps a job here. The smaller priority goes first there; a named queue becomes a lane.
select
  job.id::text as id, task.identifier as kind, -job.priority as priority, job.payload::text as input,
  case when job.run_at > clock_timestamp() then to_json(job.run_at) #>> '{}' end as "runAt",
  job.attempts::integer as failed, job.key, 'started' as until,
  line.queue_name as lane,
  case
    when job.flags <> '{}' then 'flags'
    when line.locked_at is not null then 'busy'
    when octet_length(job.payload::text) > 1000000 or length(job.key) > 500 then 'large'
  end as why,
  job.id::text as place
from graphile_worker._private_jobs as job
join graphile_worker._private_tasks as task on task.id = job.task_id
left join graphile_worker._private_job_queues as line on line.id = job.job_queue_id
where job.is_available
  and ($1::text is null or job.id > $1::text::bigint)
  and ($2::text is null or task.identifier = $2)
order by job.id
limit $3::integer
for update of job skip locked

-- name: remove
-- Those that were taken ($1: their ids).
delete from graphile_worker._private_jobs as job
using json_to_recordset($1::text::json) as taken (id bigint)
where job.id = taken.id
returning 1

-- name: rest
-- What is there at all. It keeps none that have succeeded: what has ended has failed for good.
select
  count(*) filter (where job.is_available)::integer as pending,
  count(*) filter (where job.locked_at is not null)::integer as running,
  count(*) filter (where job.locked_at is null and not job.is_available)::integer as ended
from graphile_worker._private_jobs as job
join graphile_worker._private_tasks as task on task.id = job.task_id
where $1::text is null or task.identifier = $1
