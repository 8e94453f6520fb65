-- What people want to know of locks and instances. Nothing here writes, and any role may run it that may read the schema.

-- name: locks
-- Who holds and who waits for what, on a name ($1, its key) or in a namespace ($2), or everywhere (null); or only where
-- somebody waits ($3). PostgreSQL's
-- lock table is the authority; names, times and fences come from the notes. A wait that has no session of its own at the
-- moment (it queues up inside its process, or tries from time to time) is known from its note alone, and has no pid.
with advisory as materialized (
  select
    classid, objid, objsubid, mode, granted, pid, waitstart,
    case objsubid when 1 then (classid::bigint << 32) | objid::bigint end as key
  from pg_locks
  where locktype = 'advisory'
    and database = (select oid from pg_database where datname = current_database())
),
contended as materialized (
  select key from advisory where key is not null and not granted
  union
  select key from holdfast.wait where kind <> 'permit'
),
activity as materialized (
  select
    pid,
    application_name,
    usename,
    host(client_addr) as client_address,
    case when application_name like 'holdfast %' then substr(application_name, 10) end as instance
  from pg_stat_activity
),
-- Materialised, or it is looked through anew for each lock: PostgreSQL believes that there is hardly any.
numbered as materialized (
  select pid, objid::integer as session
  from advisory
  where objsubid = 2
    and classid = (holdfast.session_class()::bigint & 4294967295)::oid
    and granted
),
present as materialized (
  select
    key,
    case mode when 'ShareLock' then 'shared' else 'exclusive' end as mode,
    advisory.granted,
    pid,
    waitstart,
    activity.application_name,
    activity.usename,
    activity.client_address,
    activity.instance,
    numbered.session
  from advisory
  left join activity using (pid)
  left join numbered using (pid)
  where key is not null
    and (not $3::boolean or key in (select key from contended))
),
noted as (
  select instance, key, mode, min(since) as since, count(*) as requests
  from holdfast.wait
  where kind = 'lock'
    and instance in (select instance from activity)
  group by instance, key, mode
),
everything as (
  select
    present.key,
    present.mode,
    present.granted,
    present.pid,
    present.session,
    present.instance,
    present.application_name,
    present.usename,
    present.client_address,
    case when present.granted then hold.since else coalesce(noted.since, present.waitstart) end as since,
    case when present.granted then hold.fence end as fence,
    coalesce(noted.requests, 1) as requests,
    case when not present.granted then to_json(pg_blocking_pids(present.pid)) else '[]' end as blocked_by
  from present
  left join holdfast.hold on hold.session = present.session and hold.key = present.key and present.granted
  left join noted
    on noted.instance = present.instance
    and noted.key = present.key
    and noted.mode = present.mode
    and not present.granted
  union all
  select key, mode, false, null, null, instance, 'holdfast ' || instance, null, null, since, null, requests, '[]'
  from noted
  where not exists (
    select
    from present
    where present.instance = noted.instance
      and present.key = noted.key
      and (not present.granted and present.mode = noted.mode
        -- The note of a wait is struck out up to a second after the grant, and before the hold is noted.
        or present.granted and not exists (
          select from holdfast.hold where hold.session = present.session and hold.key = present.key
        ))
  )
)
select
  key::text as key,
  name.namespace,
  name.label,
  mode,
  granted,
  pid,
  everything.session,
  everything.instance,
  instance.host,
  instance.os_pid,
  application_name,
  usename as username,
  client_address,
  (extract(epoch from since) * 1000)::float8 as since_ms,
  -- Reckoned back from the waiter's age, so a moment may be missing.
  case when since is not null then greatest(0, extract(epoch from clock_timestamp() - since) * 1000) end::float8 as for_ms,
  fence::text as fence,
  requests::integer as requests,
  blocked_by
from everything
left join holdfast.name using (key)
left join holdfast.instance on instance.id = everything.instance
where ($1::bigint is null or key = $1::bigint)
  and ($2::text is null or name.namespace = $2::text)
order by name.label is null, name.namespace, name.label, key, granted desc, since nulls last, pid

-- name: leases
-- Who has what by lease now, on a name ($1, its key) or in a namespace ($2), or everywhere (null): by the row, whose time
-- the clock of the database decides. Without a token nobody has it any more, and it is kept taken until its hold is over.
-- The machine and the process are known of instances with a row of their own. Relies on lease_expires_at.
select
  lease.key::text as key,
  name.namespace,
  name.label,
  lease.token <> '' as held,
  lease.instance,
  instance.host,
  instance.os_pid,
  lease.fence::text as fence,
  lease.ttl_ms,
  (extract(epoch from lease.granted_at) * 1000)::float8 as since_ms,
  greatest(0, extract(epoch from clock_timestamp() - lease.granted_at) * 1000)::float8 as for_ms,
  greatest(0, extract(epoch from lease.expires_at - clock_timestamp()) * 1000)::float8 as expires_in_ms,
  lease.wanted
from holdfast.lease
left join holdfast.name using (key)
left join holdfast.instance on instance.id = lease.instance
where lease.expires_at > clock_timestamp()
  and ($1::bigint is null or key = $1::bigint)
  and ($2::text is null or name.namespace = $2::text)
order by name.label is null, name.namespace, name.label, key

-- name: instances
-- Who takes part. An instance lives while the number of its session is locked; without an anchor, while its row has not
-- expired.
with advisory as materialized (
  select classid, objid, objsubid, granted, pid
  from pg_locks
  where locktype = 'advisory'
    and database = (select oid from pg_database where datname = current_database())
),
activity as materialized (
  select pid, substr(application_name, 10) as instance
  from pg_stat_activity
  where application_name like 'holdfast %'
),
vouched as (
  select objid::integer as session
  from advisory
  where objsubid = 2
    and classid = (holdfast.session_class()::bigint & 4294967295)::oid
    and granted
),
present as (
  select activity.instance, (classid::bigint << 32) | objid::bigint as key, granted
  from advisory
  join activity using (pid)
  where objsubid = 1
),
held as (
  select instance, count(*) as names
  from present
  where granted
  group by instance
),
waited as (
  select instance, count(*) as names
  from (
    select instance, key from present where not granted
    union
    select instance, key from holdfast.wait where kind <> 'permit'
  ) w
  group by instance
),
leased as (
  select instance, count(*) as names
  from holdfast.lease
  where expires_at > clock_timestamp()
    and token <> ''
  group by instance
)
select
  id,
  namespace,
  host,
  os_pid,
  version,
  node,
  state,
  backend_pid,
  session in (select session from vouched) or coalesce(expires_at > clock_timestamp(), false) as alive,
  coalesce(held.names, 0)::integer as held,
  coalesce(leased.names, 0)::integer as leased,
  coalesce(waited.names, 0)::integer as waiting,
  lives,
  expiry_ms,
  pooler,
  refused_settings,
  (extract(epoch from opened_at) * 1000)::float8 as opened_ms,
  (extract(epoch from clock_timestamp() - opened_at) * 1000)::float8 as for_ms
from holdfast.instance
left join held on held.instance = instance.id
left join leased on leased.instance = instance.id
left join waited on waited.instance = instance.id
order by opened_at, id

-- name: queue_keys
-- The queues that are known by name, and those in which jobs may run or wait: each found by one step in job_order and in
-- waiting_queue.
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
select key::text as key, namespace, name
from (
  select key from holdfast.queue
  union
  select queue from of_jobs where queue is not null
  union
  select queue from of_waiting where queue is not null
) as keys
left join holdfast.queue using (key)
where ($1::text is null or namespace = $1)
  and ($2::text is null or name = $2)
order by name is null, namespace, name, key

-- name: queues
-- How many jobs of the queues ($1) are where, each counted up to a bound ($2). What runs is found by the claims, because
-- no index tells it. Relies on job_order, waiting_queue and job_history_failed.
with running as materialized (
  select job.queue, count(distinct job.id) as jobs
  from (select fence, upto, unnest(jobs) as id from holdfast.claim) as claim
  cross join lateral (
    select id, queue
    from holdfast.job
    where job.id = claim.id
      and (job.fence = claim.fence or job.session is null and job.seq <= claim.upto)
    -- Each by its id, whatever the planner believes to be few.
    offset 0
  ) as job
  group by job.queue
),
worked as materialized (
  select queue, count(*) as workers
  from holdfast.job_serving() as worker
  cross join lateral unnest(worker.queues) as queue
  group by queue
)
select
  key::text as key,
  queue.namespace,
  queue.name,
  -- All but those that run, so that the index alone can answer.
  (
    select count(*)
    from (select from holdfast.job where job.queue = key limit $2 + coalesce(running.jobs, 0)) as counted
  )::integer - coalesce(running.jobs, 0)::integer as ready,
  coalesce(running.jobs, 0)::integer as running,
  (select count(*) from (select from holdfast.waiting where waiting.queue = key limit $2) as counted)::integer as waiting,
  (
    select count(*)
    from (select from holdfast.job_history h where h.queue = key and h.state = 'buried' limit $2) as counted
  )::integer as buried,
  (extract(epoch from paused_at) * 1000)::float8 as paused_ms,
  (extract(epoch from clock_timestamp() - paused_at) * 1000)::float8 as paused_for_ms,
  coalesce(worked.workers, 0)::integer as workers
from unnest($1::text::bigint[]) with ordinality as asked (key, place)
left join holdfast.queue using (key)
left join running on running.queue = key
left join worked on worked.queue = key
order by place

-- name: jobs
-- Jobs of the queues ($1), in the states ($2) and of the kind ($3, or null), at most so many ($4): first those that run,
-- then those that may, in the order in which they are claimed, then those that wait, the next due one first, then those
-- that have ended, the newest first. To find a kind so many are looked through in each place of an index ($5), and so many
-- ($6) of the last that are done. A limit that the planner cannot see makes it walk the index, also where much is in one
-- queue. Relies on job_order, waiting_queue, job_history_failed and job_history_id.
with asked as materialized (
  select unnest($1::text::bigint[]) as key
),
claimed as materialized (
  select distinct on (job.id)
    job.id, job.queue, job.kind, job.priority, job.enqueued_at, claim.claimed_at, claim.session, job.failed, job.crashes,
    job.progress, job.cancelled, job.failures
  from (select fence, session, upto, claimed_at, unnest(jobs) as id from holdfast.claim) as claim
  cross join lateral (
    select *
    from holdfast.job
    where job.id = claim.id
      and (job.fence = claim.fence or job.session is null and job.seq <= claim.upto)
    -- Each by its id, whatever the planner believes to be few.
    offset 0
  ) as job
  order by job.id, claim.fence desc
),
running as (
  select
    1 as part, row_number() over (order by claimed_at, id) as place,
    id, queue, 'running' as state, kind, priority, enqueued_at, null::timestamptz as run_at,
    claimed_at, null::timestamptz as ended_at, session, failed, crashes, progress, cancelled,
    null::json as error, failures, null as stage
  from claimed
  where 'running' = any($2::text[])
    and queue in (select key from asked)
    and ($3::text is null or kind = $3)
  order by place
  limit $4::integer
),
ready as (
  select
    2, row_number() over (order by priority desc, seq),
    id, queue, 'ready', kind, priority, enqueued_at, null::timestamptz,
    null::timestamptz, null::timestamptz, null::integer, failed, crashes, null::real, null,
    null::json, failures, null
  from asked
  cross join generate_series(-5, 5) as level
  cross join lateral (
    select *
    from holdfast.job
    where job.queue = key
      and job.priority = level
      and job.session is null
      and job.id not in (select id from claimed)
    order by seq
    limit (select $5::integer)
  ) as looked
  where 'ready' = any($2::text[])
    and ($3::text is null or kind = $3)
  order by 2
  limit $4::integer
),
waiting as (
  select
    3, row_number() over (order by run_at, id),
    id, queue, 'waiting', kind, priority, enqueued_at, run_at,
    null::timestamptz, null::timestamptz, null::integer, failed, crashes, null::real, null,
    null::json, failures, stage
  from asked
  cross join lateral (
    select *
    from holdfast.waiting
    where waiting.queue = key
    order by run_at
    limit (select $5::integer)
  ) as looked
  where 'waiting' = any($2::text[])
    and ($3::text is null or kind = $3)
  order by 2
  limit $4::integer
),
failed as (
  select
    4, -id,
    id, queue, state, kind, priority, enqueued_at, null::timestamptz,
    claimed_at, ended_at, null::integer, failed, crashes, progress, null,
    error, failures, null
  from asked
  cross join unnest(array['buried', 'cancelled', 'discarded']) as wanted
  cross join lateral (
    select *
    from holdfast.job_history h
    where h.queue = key
      and h.state = wanted
      and h.state <> 'done'
    order by id desc
    limit (select $5::integer)
  ) as looked
  where wanted = any($2::text[])
    and ($3::text is null or kind = $3)
  order by 2
  limit $4::integer
),
done as (
  select
    4, -id,
    id, queue, state, kind, priority, enqueued_at, null::timestamptz,
    claimed_at, ended_at, null::integer, failed, crashes, progress, null,
    error, failures, null
  from (
    select *
    from holdfast.job_history
    order by id desc
    limit (select $6::integer)
  ) as looked
  where 'done' = any($2::text[])
    and state = 'done'
    and queue in (select key from asked)
    and ($3::text is null or kind = $3)
  order by id desc
  limit $4::integer
),
listed as materialized (
  select * from running
  union all
  select * from ready
  union all
  select * from waiting
  union all
  select * from failed
  union all
  select * from done
  order by part, place
  limit $4::integer
),
unserved as materialized (
  select found.*
  from (
    select array_agg(queue) as queues, array_agg(kind) as kinds
    from (select distinct queue, kind from listed where state = 'ready') as asked
  ) as pairs
  cross join lateral holdfast.job_unserved(pairs.queues, pairs.kinds) as found
),
needed as materialized (
  select needs.job, json_agg(json_build_object('id', needs.needs, 'state', needs.state) order by needs.needs) as jobs
  from holdfast.job_needs((select array_agg(id) from listed where stage = 'jobs'), 4) as needs
  group by needs.job
)
select
  listed.id::text as id,
  listed.kind,
  listed.queue::text as queue_key,
  queue.name as queue,
  queue.namespace,
  listed.state,
  queue.paused_at is not null and listed.state = 'ready' as paused,
  listed.priority,
  listed.failed,
  listed.crashes,
  listed.progress,
  (select min(worker.instance) from holdfast.worker where worker.session = listed.session) as instance,
  listed.cancelled as cancelling,
  unserved.unserved,
  case when listed.stage = 'jobs' then coalesce(needed.jobs, '[]') end as needs,
  coalesce(listed.error ->> 'message', listed.failures -> -1 ->> 'message') as failure,
  (extract(epoch from listed.enqueued_at) * 1000)::float8 as enqueued_ms,
  (extract(epoch from listed.run_at) * 1000)::float8 as run_at_ms,
  (extract(epoch from listed.claimed_at) * 1000)::float8 as claimed_ms,
  (extract(epoch from listed.ended_at) * 1000)::float8 as ended_ms,
  greatest(
    0,
    extract(epoch from clock_timestamp() - coalesce(listed.ended_at, listed.claimed_at, listed.enqueued_at)) * 1000
  )::float8 as for_ms,
  greatest(0, extract(epoch from listed.run_at - clock_timestamp()) * 1000)::float8 as due_in_ms
from listed
left join holdfast.queue on queue.key = listed.queue
left join unserved
  on listed.state = 'ready' and queue.paused_at is null and unserved.queue = listed.queue and unserved.kind = listed.kind
left join needed on needed.job = listed.id
order by part, place

-- name: clock
-- The time, by the database's clock.
select (extract(epoch from clock_timestamp()) * 1000)::float8 as now_ms

-- name: name_of
-- What somebody called the key ($1), while that is known. Relies on name_pkey.
select namespace, label
from holdfast.name
where key = $1::bigint
