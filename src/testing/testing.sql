-- name: queues
-- Returns the keys of the queues in a namespace ($1). Includes registered queues, and queues that this instance has used ($2) but may not
-- have registered yet.
select key::text as key
from holdfast.queue
where namespace = $1
union
select unnest($2::text::bigint[])::text

-- name: enqueued
-- Returns the jobs in the given queues ($1) that have not started, in the order in which they were enqueued. Returns only jobs of one kind
-- ($2), or of all kinds if $2 is null.
select
  unbegun.id::text as id, kind, coalesce(name, queue::text) as queue, payload::text as payload, meta::text as meta, priority,
  (extract(epoch from enqueued_at) * 1000)::float8 as enqueued_ms,
  (extract(epoch from nullif(run_at, 'infinity')) * 1000)::float8 as run_at_ms
from (
  select id, kind, queue, payload, meta, priority, enqueued_at, null::timestamptz as run_at
  from holdfast.job_live
  where session is null
    and failed = 0
    and crashes = 0
  union all
  select id, kind, queue, payload, meta, priority, enqueued_at, run_at
  from holdfast.waiting
  where failed = 0
    and crashes = 0
    -- A job that sleeps or waits for an event has started.
    and not exists (select from holdfast.job_step where job = waiting.id)
) as unbegun
left join holdfast.queue on queue.key = unbegun.queue
where queue = any($1::text::bigint[])
  and ($2::text is null or kind = $2)
order by unbegun.id

-- name: open_jobs
-- Returns the last job number, and the jobs of the given kinds ($2) in the given queues ($1) that have not ended. Includes each job's
-- number of failures if the job is waiting for a later time, and -1 otherwise.
select
  (select last_value from holdfast.job_number)::text as last,
  coalesce(json_object_agg(id, tries) filter (where id is not null), '{}')::text as tries
from (
  select id, -1 as tries
  from holdfast.job_live
  where queue = any($1::text::bigint[])
    and kind = any($2::text[])
  union all
  select id, case when run_at > clock_timestamp() then failed + crashes else -1 end
  from holdfast.waiting
  where queue = any($1::text::bigint[])
    and kind = any($2::text[])
) as unended

-- name: attempted
-- Returns the jobs that have ended or failed since open_jobs was called. $3 contains the jobs that existed at that time, and jobs with a
-- number above $4 are newer.
select id::text as id
from (
  select id
  from holdfast.job_find(array(select json_object_keys($3::text::json)::bigint)) as f
  where f.state in ('done', 'cancelled', 'expired', 'discarded', 'buried')
  union
  select id
  from holdfast.job_find(
    array(
      select id from holdfast.job where id > $4::bigint and queue = any($1::text::bigint[]) and kind = any($2::text[])
      union
      select id from holdfast.job_stopped where id > $4::bigint and queue = any($1::text::bigint[]) and kind = any($2::text[])
    )
  ) as f
  where f.state in ('done', 'cancelled', 'expired', 'discarded', 'buried')
  union
  select id
  from holdfast.waiting
  where queue = any($1::text::bigint[])
    and kind = any($2::text[])
    and failed + crashes > coalesce(($3::text::json ->> id::text)::integer, 0)
) as attempted
order by attempted.id

-- name: unfinished
-- Returns the reasons why a drain must continue. The reasons are active jobs (at most 100 that are running, or ready in a queue that is not
-- paused), due jobs that are still waiting, and pending follow-ups.
select
  array(
    select id::text
    from holdfast.job_live
    where queue = any($1::text::bigint[])
      and kind = any($2::text[])
      and (
        session is not null
        or not exists (select from holdfast.queue where key = job_live.queue and paused_at is not null)
      )
    order by id
    limit 100
  ) as active,
  exists (
    select
    from holdfast.waiting
    where queue = any($1::text::bigint[])
      and kind = any($2::text[])
      and stage = 'time'
      and run_at <= clock_timestamp()
  ) as due,
  exists (
    -- A follow-up that may admit or release a waiting job.
    select
    from holdfast.waiting
    where queue = any($1::text::bigint[])
      and exists (
        select
        from holdfast.follow_up
        where waiting.lane = any(follow_up.keys)
          or waiting.stage = 'jobs' and follow_up.ended is not null
      )
  ) as follow_ups

-- name: maintain
-- Makes due jobs ready. Returns null if another session is doing so.
select moved
from holdfast.job_maintain(1000)

-- name: pass_time
-- Shifts times in the given queues ($1) to $2 ms earlier: waiting jobs' start times, deadlines, ends of sleeps and
-- waits, and ends of unique windows. Returns the number of due jobs, and of jobs whose deadline has passed.
with windows as (
  update holdfast.unique_job
  set expires_at = expires_at - make_interval(secs => $2::float8 / 1000)
  where queue = any($1::text::bigint[])
    and expires_at is not null
),
nearer as (
  update holdfast.waiting
  set run_at = case when lane is null then run_at - make_interval(secs => $2::float8 / 1000) else run_at end,
      links = links || (
        select coalesce(jsonb_object_agg(key, value::timestamptz - make_interval(secs => $2::float8 / 1000)), '{}')
        from jsonb_each_text(links)
        where key in ('runAt', 'startBy')
      )
  where queue = any($1::text::bigint[])
  returning id, stage, run_at
),
sleeps as (
  update holdfast.job_step
  set due_at = due_at - make_interval(secs => $2::float8 / 1000)
  from nearer
  where job_step.job = nearer.id
    and job_step.ended_at is null
),
-- The entries of ready jobs contain their deadlines, too.
deadlines as (
  update holdfast.job_deadline
  set start_by = start_by - make_interval(secs => $2::float8 / 1000)
  where id in (
    select id from nearer
    union all
    select id from holdfast.job where queue = any($1::text::bigint[])
  )
  returning id, start_by
),
entries as (
  update holdfast.job
  set links = jsonb_set(links, '{startBy}', to_jsonb(deadlines.start_by))
  from deadlines
  where job.id = deadlines.id
    and links ? 'startBy'
),
lanes as (
  update holdfast.lane
  set free_at = free_at - make_interval(secs => $2::float8 / 1000),
      due_at = due_at - make_interval(secs => $2::float8 / 1000)
  where queue = any($1::text::bigint[])
)
select
  (select count(*)::integer from nearer where stage = 'time' and run_at <= clock_timestamp()) as due,
  (select count(*)::integer from deadlines where start_by <= clock_timestamp()) as late

-- name: expire
-- Ends jobs whose deadline has passed. See job_expire. Returns whether no other session runs maintenance, and the number of ended jobs.
select
  pg_try_advisory_xact_lock(holdfast.lock_class('job maintenance'), 0) as ran,
  (select count(*)::integer from holdfast.job_expire(1000)) as expired

-- name: are_due
-- Returns whether any job in the given queues is due but still waiting.
select exists (
  select from holdfast.waiting where queue = any($1::text::bigint[]) and stage = 'time' and run_at <= clock_timestamp()
  union all
  select from holdfast.lane where queue = any($1::text::bigint[]) and due_at <= clock_timestamp()
  union all
  select
  from holdfast.job_deadline
  cross join lateral holdfast.job_find(array[job_deadline.id]) as f
  where job_deadline.start_by <= clock_timestamp()
    and f.queue = any($1::text::bigint[])
) as are_due

-- name: stop_claims
-- Blocks claims in the given queues until the transaction ends.
select pg_advisory_xact_lock(holdfast.lock_class('job claims'), object)
from (
  select distinct queue::bit(32)::integer as object from unnest($1::text::bigint[]) as queue order by object
) as in_order

-- name: remove
-- Removes all jobs in the given queues and their unique keys. Returns the number of removed jobs. Also returns the jobs that have links, in
-- the format that job_release_links expects. Workers detect that they no longer own their claims.
with live as materialized (
  select id, queue, kind, links, fence, 'all' as holds from holdfast.job_live where queue = any($1::text::bigint[])
),
claims as (
  delete from holdfast.claim where fence in (select fence from live)
),
entries as (
  delete from holdfast.job where queue = any($1::text::bigint[]) returning id
),
skipped as (
  delete from holdfast.job_skipped where queue = any($1::text::bigint[])
),
removed as (
  delete from holdfast.job_removed where queue = any($1::text::bigint[])
),
waiting as (
  delete from holdfast.waiting
  where queue = any($1::text::bigint[])
  returning id, queue, kind, links, case when stage = 'budget' then 'lane' else 'none' end as holds
),
stopped as (
  delete from holdfast.job_stopped where queue = any($1::text::bigint[]) returning id
),
archived as (
  delete from holdfast.job_archive where queue = any($1::text::bigint[])
),
deadlines as (
  delete from holdfast.job_deadline where id in (select id from entries union select id from waiting)
),
steps as (
  delete from holdfast.job_step
  where job in (select id from entries union select id from waiting union select id from stopped)
),
events as (
  delete from holdfast.job_event
  where job in (select id from entries union select id from waiting union select id from stopped)
),
-- Includes unique keys that outlive their jobs.
keys as (
  delete from holdfast.unique_job where queue = any($1::text::bigint[])
),
unended as (
  select id, queue, kind, links, holds from live
  union all
  select id, queue, kind, links, holds from waiting
)
select
  (select count(*) from (select id from entries union select id from waiting union select id from stopped) as jobs)::integer as jobs,
  (
    select jsonb_agg(
      jsonb_build_object('id', id, 'queue', queue, 'kind', kind, 'state', 'cancelled', 'links', links, 'holds', holds)
    )::text
    from unended
    where links is not null
  ) as linked

-- name: release_links
-- Releases the links of removed jobs. See job_release_links.
select holdfast.job_release_links($1::text::jsonb)

-- name: resume
-- Resumes the given queues if they are paused.
update holdfast.queue
set paused_at = null
where key = any($1::text::bigint[])
  and paused_at is not null
