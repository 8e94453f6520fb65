-- Statements that read and remove pg-boss jobs. Written for the schema pgboss, versions 31 to 43.

-- name: version
-- Returns the version, and whether row level security hides rows from this role.
select max(version) as version, row_security_active('pgboss.job') as is_hidden
from pgboss.version

-- name: lock_next
-- Locks and returns the next waiting jobs after $1, oldest first. Skips locked rows, as pg-boss does. Returns at most about 4 MB. reason:
-- why a job stays in pg-boss. A queue whose policy allows one job at a time becomes a lane.
with next as materialized (
  select *
  from pgboss.job
  where state < 'active'
    and ($1::text is null or (created_on, id) > (($1::text::text[])[1]::timestamptz, ($1::text::text[])[2]::uuid))
    and ($2::text is null or name = $2)
  order by created_on, id
  limit $3::integer
  for update skip locked
),
busy as materialized (
  select name, case when policy in ('singleton', 'stately', 'key_strict_fifo') then coalesce(singleton_key, name) else group_id end as line
  from pgboss.job
  where state = 'active'
),
lined as (
  select
    *,
    case when policy in ('singleton', 'stately', 'key_strict_fifo') then coalesce(singleton_key, name) else group_id end as line,
    sum(octet_length(data::text)) over (order by created_on, id rows between unbounded preceding and 1 preceding) as bytes_before
  from next
)
select
  id::text as id, name as kind, priority, data::text as input,
  case when start_after > clock_timestamp() then to_json(start_after) #>> '{}' end as "runAt",
  case when state = 'retry' then retry_count + 1 else 0 end as failed,
  case when policy = 'exclusive' or policy in ('short', 'stately') and state = 'created' then singleton_key end as key,
  case when policy = 'exclusive' then 'ended' else 'started' end as until,
  line as lane,
  case
    when name like '\_\_pgboss\_\_%' then 'internal'
    when blocked or blocking then 'linked'
    when (name, line) in (select busy.name, busy.line from busy where busy.line is not null) then 'busy'
    when octet_length(data::text) > 1000000
      or length(name) > 500
      or length(coalesce(line, '')) > 500
      or length(coalesce(singleton_key, '')) > 500 then 'large'
  end as reason,
  array[created_on::text, id::text]::text as place
from lined
where coalesce(bytes_before, 0) < 4000000
order by created_on, id

-- name: remove
-- Removes the imported jobs ($1: their ids and kinds). Uses the primary key of the partitions, (name, id).
delete from pgboss.job
using json_to_recordset($1::text::json) as taken (id uuid, kind text)
where job.name = taken.kind
  and job.id = taken.id
returning 1

-- name: count_remaining
-- Counts all jobs.
select
  count(*) filter (where state < 'active')::integer as pending,
  count(*) filter (where state = 'active')::integer as running,
  count(*) filter (where state > 'active')::integer as ended
from pgboss.job
where $1::text is null or name = $1
