-- SQL that several statements share. A line `-- include: used_queue` in a statement includes the part with that name. Each part ends with
-- the comma before the next expression or column.

-- part: advisory
-- The advisory locks in this database. For a lock on a name, the column key contains the name's key. For a lock on a session number, the
-- column session contains the number. The part is materialized, because the planner underestimates the number of rows and would otherwise
-- read the lock table once per row of the joined table.
advisory as materialized (
  select
    mode,
    granted,
    pid,
    waitstart,
    case objsubid when 1 then (classid::bigint << 32) | objid::bigint end as key,
    case
      when objsubid = 2 and granted and classid = (holdfast.session_class()::bigint & 4294967295)::oid then objid::integer
    end as session
  from pg_locks
  where locktype = 'advisory'
    and database = (select oid from pg_database where datname = current_database())
),

-- part: used_queue
-- The queues with a registered name, and the queues with jobs in the tables job or waiting. Each queue costs one index step in job_order
-- and one index step in waiting_queue, regardless of the number of jobs.
used_queue as materialized (
  with recursive
  of_jobs as (
    (select queue from holdfast.job order by queue limit 1)
    union all
    select (select min(queue) from holdfast.job where job.queue > of_jobs.queue)
    from of_jobs
    where queue is not null
  ),
  of_waiting as (
    (select queue from holdfast.waiting order by queue limit 1)
    union all
    select (select min(queue) from holdfast.waiting where waiting.queue > of_waiting.queue)
    from of_waiting
    where queue is not null
  )
  select key, namespace, name, paused_at
  from (
    select key from holdfast.queue
    union
    select queue from of_jobs where queue is not null
    union
    select queue from of_waiting where queue is not null
  ) as keys
  left join holdfast.queue using (key)
),

-- part: running_job
-- The running jobs. They are found through the claims, because no index lists running jobs. `offset 0` makes the planner look up each job
-- by its ID.
running_job as materialized (
  select job.id, job.queue, claim.session, claim.claimed_at
  from (select fence, session, claimed_at, unnest(jobs) as id from holdfast.claim) as claim
  cross join lateral (
    select id, queue
    from holdfast.job
    where job.id = claim.id
      and job.fence = claim.fence
    offset 0
  ) as job
),

-- part: recent_history
-- The last $1 pages of today's job history. Jobs are appended in the order in which they end, so no index is needed to read the pages.
today as materialized (
  select
    date_trunc('day', clock_timestamp() at time zone 'UTC') at time zone 'UTC' as began_at,
    pg_relation_size(coalesce(
      to_regclass(format(
        '%I.%I', holdfast.notification_channel(), 'job_history_' || to_char(clock_timestamp() at time zone 'UTC', 'YYYYMMDD')
      )),
      'holdfast.job_history_default'::regclass
    )) / current_setting('block_size')::integer as pages
),
tail as materialized (
  select queue, state, enqueued_at, claimed_at, ended_at, failed, crashes
  from holdfast.job_history
  where ended_at >= (select began_at from today)
    and ended_at < (select began_at + interval '1 day' from today)
    and ctid >= (select format('(%s,0)', greatest(0, pages - $1::integer)) from today)::tid
),

-- part: delivery_columns
-- The columns of a delivery and of its instance.
  delivery.instance,
  instance.host,
  instance.os_pid as "osPid",
  delivery.fence::float8 as fence,
  (extract(epoch from delivery.started_at) * 1000)::float8 as "startedAt",
  (extract(epoch from delivery.finished_at) * 1000)::float8 as "finishedAt",
  (extract(epoch from delivery.expires_at) * 1000)::float8 as "expiresAt",
  greatest(0, extract(epoch from clock_timestamp() - coalesce(delivery.finished_at, delivery.started_at)) * 1000)::float8 as "forMs",
