-- What pg-boss keeps, as whoever moves its jobs to Holdfast reads and takes it. Written for the schema pgboss, of the versions 31 to 43.

-- name: version
-- Which it is, and whether policies hide rows from this role.
select max(version) as version, row_security_active('pgboss.job') as is_hidden
from pgboss.version

-- name: take
-- The next jobs that wait, after $1, in the order in which they came: locked until the transaction ends. What somebody else has locked
-- is passed by, as its workers do. Why: what keeps a job here. A queue whose policy is about one at a time becomes a lane.
select
  job.id::text as id, job.name as kind, job.priority, job.data::text as input,
  case when job.start_after > clock_timestamp() then to_json(job.start_after) #>> '{}' end as "runAt",
  case when job.state = 'retry' then job.retry_count + 1 else 0 end as failed,
  case when job.policy = 'exclusive' or job.policy in ('short', 'stately') and job.state = 'created' then job.singleton_key end as key,
  case when job.policy = 'exclusive' then 'ended' else 'started' end as until,
  line.name as lane,
  case
    when job.name like '\_\_pgboss\_\_%' then 'internal'
    when job.blocked or job.blocking then 'tied'
    when line.is_busy then 'busy'
    when octet_length(job.data::text) > 1000000
      or length(job.name) > 500
      or length(coalesce(line.name, '')) > 500
      or length(coalesce(job.singleton_key, '')) > 500 then 'large'
  end as why,
  array[job.created_on::text, job.id::text]::text as place
from pgboss.job
left join lateral (
  select
    case when one_at_a_time then coalesce(job.singleton_key, job.name) else job.group_id end as name,
    exists (
      select from pgboss.job as running
      where running.name = job.name
        and running.state = 'active'
        and case
          when one_at_a_time then coalesce(running.singleton_key, '') = coalesce(job.singleton_key, '')
          else running.group_id = job.group_id
        end
    ) as is_busy
  from (select coalesce(job.policy in ('singleton', 'stately', 'key_strict_fifo'), false) as one_at_a_time) as policy
  where one_at_a_time or job.group_id is not null
) as line on true
where job.state < 'active'
  and ($1::text is null or (job.created_on, job.id) > (($1::text::text[])[1]::timestamptz, ($1::text::text[])[2]::uuid))
  and ($2::text is null or job.name = $2)
order by job.created_on, job.id
limit $3::integer
for update of job skip locked

-- name: remove
-- Those that were taken ($1: their ids and kinds). Relies on the primary key of the partitions, (name, id).
delete from pgboss.job
using json_to_recordset($1::text::json) as taken (id uuid, kind text)
where job.name = taken.kind
  and job.id = taken.id
returning 1

-- name: rest
-- What is there at all.
select
  count(*) filter (where state < 'active')::integer as pending,
  count(*) filter (where state = 'active')::integer as running,
  count(*) filter (where state > 'active')::integer as ended
from pgboss.job
where $1::text is null or name = $1
