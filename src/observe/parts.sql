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
-- The queues with a registered name, and the queues with rows in the tables job or waiting. Each queue costs one index step in job_order
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
-- The running jobs: the ids of all claims, without the ids whose end is recorded. `offset 0` and `limit 1` make the planner use the indexes
-- job_end_bucket and job_id, however large the tables are.
claimed_job as materialized (
  select fence, session, claimed_at, unnest(ids) as id from holdfast.claim
),
ended_attempt as materialized (
  select attempt.fence, unnest(attempt.ids) as id
  from (select distinct fence, holdfast.job_bucket(id) as bucket from claimed_job) as claimed
  cross join lateral (
    select fence, ids
    from holdfast.job_end
    where job_end.bucket = claimed.bucket
      and job_end.fence = claimed.fence
    offset 0
  ) as attempt
),
unended_job as materialized (
  select *
  from claimed_job
  where not exists (select from ended_attempt where ended_attempt.fence = claimed_job.fence and ended_attempt.id = claimed_job.id)
),
running_job as materialized (
  select unended_job.*, entered.queue
  from unended_job
  -- All of a job's entries have the same queue.
  cross join lateral (select queue from holdfast.job where job.id = unended_job.id limit 1) as entered
),

-- part: ready_stretch
-- The places that contain ready entries, in at most a few steps per level. A stretch without a kind is a range of the index job_order: the entries
-- behind the level's frontier, or the entries of a transaction that was in progress when the frontier passed it. A stretch with a kind is a range of
-- the index job_skipped_queue.
level_frontier as materialized (
  select
    *,
    greatest(at_xid, pg_snapshot_xmax(base)) as from_xid,
    exists (select from holdfast.job_removed where job_removed.queue = levels.queue) as has_removed
  from holdfast.job_levels() as levels
),
skipped_level as materialized (
  with recursive level as (
    (select queue, kind, priority from holdfast.job_skipped order by queue, kind, priority limit 1)
    union all
    select next.queue, next.kind, next.priority
    from level
    cross join lateral (
      select queue, kind, priority
      from holdfast.job_skipped
      where (job_skipped.queue, job_skipped.kind, job_skipped.priority) > (level.queue, level.kind, level.priority)
      order by queue, kind, priority
      limit 1
    ) as next
  )
  select * from level
),
ready_stretch as materialized (
  select
    queue, priority, null as kind, has_removed, era as from_era, from_xid,
    case when from_xid = at_xid then at_entry else 0 end as from_entry, 2147483647 as to_era, '18446744073709551615'::xid8 as to_xid
  from level_frontier
  union all
  select
    queue, priority, null, has_removed, era, xid,
    case when xid = at_xid and pg_visible_in_snapshot(xid, upto) then at_entry else 0 end, era, xid
  from level_frontier
  cross join lateral (select pg_snapshot_xip(base) as xid union select pg_snapshot_xip(upto)) as open
  where xid < from_xid
    and not (xid < at_xid and pg_visible_in_snapshot(xid, upto))
  union all
  select queue, priority, kind, false, null, null, null, null, null from skipped_level
),

-- part: stretch_entries
-- The first max_rows entries of a ready_stretch, for `cross join lateral`. Reads at most twice as many entries if jobs were cancelled.
  select entered.*
  from (
    select job.*
    from holdfast.job
    where stretch.kind is null
      and job.queue = stretch.queue
      and job.priority = stretch.priority
      and (job.era, job.xid, job.entry) > (stretch.from_era, stretch.from_xid, stretch.from_entry)
      and (job.era, job.xid) <= (stretch.to_era, stretch.to_xid)
    order by job.era, job.xid, job.entry
    limit (select stretch.max_rows * (1 + stretch.has_removed::integer))
  ) as entered
  -- A scalar subquery, because a hash join would read all removed entries.
  where not stretch.has_removed
    or (select job_removed.entry from holdfast.job_removed where job_removed.entry = entered.entry) is null
  union all
  select entered.*
  from (
    select id, entry
    from holdfast.job_skipped
    where job_skipped.queue = stretch.queue
      and job_skipped.kind = stretch.kind
      and job_skipped.priority = stretch.priority
    order by job_skipped.entry
    limit (select stretch.max_rows)
  ) as skipped
  cross join lateral (
    select * from holdfast.job where job.id = skipped.id and job.entry = skipped.entry offset 0
  ) as entered

-- part: missing_value
-- The values in wanted_value that a job lacks, given its payload and meta. A list has each of its elements as a value.
  select
  from wanted_value
  where case
    when json_typeof((case wanted_value.source when 'meta' then meta else payload end) #> path) = 'array'
    then value not in (
      select coalesce(element, 'null')
      from json_array_elements_text((case wanted_value.source when 'meta' then meta else payload end) #> path) as element
    )
    else coalesce((case wanted_value.source when 'meta' then meta else payload end) #>> path, 'null') <> value
  end

-- part: recent_history
-- The jobs that ended last. Ends are appended in the order in which they happen, so no index is needed to read the
-- last pages. Reads the last $1 pages of today's stopped jobs. From job_end, reads the last pages until they contain 5,000 done jobs or the
-- ends of a whole minute, but at most $1 pages. All ends since counted_from have been read.
today as materialized (
  select
    date_trunc('day', clock_timestamp() at time zone 'UTC') at time zone 'UTC' as began_at,
    pg_relation_size(coalesce(
      to_regclass(format(
        '%I.%I', holdfast.notification_channel(), 'job_stopped_' || to_char(clock_timestamp() at time zone 'UTC', 'YYYYMMDD')
      )),
      'holdfast.job_stopped_default'::regclass
    )) / current_setting('block_size')::integer as pages
),
ends_now as materialized (
  select oid, coalesce(began_at, '-infinity') as began_at, coalesce(ended_at, 'infinity') as ended_at,
    (pg_relation_size(oid) / current_setting('block_size')::integer)::integer as pages
  from (
    select
      inhrelid as oid,
      substring(pg_get_expr(relpartbound, inhrelid) from 'FROM \(''([^'']+)''\)')::timestamptz as began_at,
      substring(pg_get_expr(relpartbound, inhrelid) from 'TO \(''([^'']+)''\)')::timestamptz as ended_at
    from pg_inherits
    join pg_class on pg_class.oid = inhrelid
    where inhparent = 'holdfast.job_end'::regclass
  ) as partition
  where began_at is null
    or clock_timestamp() between began_at and ended_at
  order by began_at desc nulls last
  limit 1
),
-- Reads backwards in steps of 1, 2, 4, … pages.
page_step as materialized (
  with recursive step as (
    select pages as page, 1 as width, 0::bigint as jobs, clock_timestamp() as oldest_at from ends_now
    union all
    select greatest(0, step.page - step.width), step.width * 2, step.jobs + looked.jobs, least(step.oldest_at, looked.oldest_at)
    from step
    cross join lateral (
      select coalesce(sum(cardinality(ids)), 0) as jobs, min(ended_at) as oldest_at
      from holdfast.job_end
      where ended_at >= (select began_at from ends_now)
        and ended_at < (select ended_at from ends_now)
        and job_end.tableoid = (select oid from ends_now)
        and ctid >= format('(%s,0)', greatest(0, step.page - step.width))::tid
        and ctid < format('(%s,0)', step.page)::tid
        and is_done
    ) as looked
    where step.page > 0
      and step.page > (select pages from ends_now) - $1::integer
      and step.jobs < 5000
      and step.oldest_at > clock_timestamp() - interval '1 minute'
  )
  select min(page) as first from step
),
recent_end as materialized (
  select *
  from (
    select ids, claimed_at, ended_at, sum(cardinality(ids)) over (order by ended_at desc rows unbounded preceding) as jobs
    from holdfast.job_end
    where ended_at >= (select began_at from ends_now)
      and ended_at < (select ended_at from ends_now)
      and job_end.tableoid = (select oid from ends_now)
      and ctid >= (select format('(%s,0)', first) from page_step)::tid
      and is_done
  ) as counted
  where jobs - cardinality(ids) < 5000
),
tail as materialized (
  select
    entered.id, entered.queue, 'done' as state, entered.enqueued_at, recent_end.claimed_at, recent_end.ended_at, entered.failed,
    entered.crashes
  from recent_end
  cross join lateral unnest(recent_end.ids) as ended (id)
  cross join lateral (
    select
      id, queue, coalesce(enqueued_at, entered_at) as enqueued_at, coalesce(failed, 0) as failed, coalesce(crashes, 0) as crashes
    from holdfast.job
    where job.id = ended.id
    order by entry desc
    limit 1
  ) as entered
  union all
  select id, queue, state, enqueued_at, claimed_at, ended_at, failed, crashes
  from holdfast.job_stopped
  where ended_at >= (select began_at from today)
    and ended_at < (select began_at + interval '1 day' from today)
    and ctid >= (select format('(%s,0)', greatest(0, pages - $1::integer)) from today)::tid
),
counted_from as materialized (
  select clock.until, greatest(
    clock.until - interval '1 minute',
    began_at,
    (select began_at from ends_now),
    -- If all pages were read, the oldest end time does not limit the period.
    case when pages > $1::integer then (select min(ended_at) from tail where state <> 'done') end,
    case
      when (select first from page_step) > 0 or exists (select from recent_end where jobs >= 5000) then (select min(ended_at) from recent_end)
    end
  ) as at
  from today
  cross join (select clock_timestamp() as until offset 0) as clock
),

-- part: delivery_columns
-- The columns of a delivery and its instance.
  delivery.instance,
  instance.name as "instanceName",
  instance.host,
  instance.os_pid as "osPid",
  delivery.fence::float8 as fence,
  (extract(epoch from delivery.started_at) * 1000)::float8 as "startedAt",
  (extract(epoch from delivery.finished_at) * 1000)::float8 as "finishedAt",
  (extract(epoch from delivery.expires_at) * 1000)::float8 as "expiresAt",
  greatest(0, extract(epoch from clock_timestamp() - coalesce(delivery.finished_at, delivery.started_at)) * 1000)::float8 as "forMs",
