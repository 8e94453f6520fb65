-- Read-only statements about holders and waiters that PostgreSQL's lock table does not contain. The wait graph combines these statements
-- and the `locks` statement into one query. Each statement returns at most $1 names, with at most $2 holders and $2 waiters per name.
-- Counts are bounded.

-- name: waits
-- Returns live instances' recorded waits: waits for locks, waits for leases, and waits for permits if the waiting call also holds a
-- name.
select
  wait.instance,
  coalesce(instance.name, wait.instance_name) as instance_name,
  instance.host,
  instance.os_pid,
  wait.kind,
  wait.key::text as key,
  name.namespace,
  name.label,
  wait.mode,
  wait.holding::text[] as holding,
  (extract(epoch from wait.since) * 1000)::float8 as since_ms,
  greatest(0, extract(epoch from clock_timestamp() - wait.since) * 1000)::float8 as for_ms
from holdfast.wait
left join holdfast.name on name.key = wait.key
left join holdfast.instance_name as instance on instance.id = wait.instance
where wait.valid_until > clock_timestamp()
  or wait.valid_until is null and wait.instance in (
    select substr(application_name, 10)
    from pg_stat_activity
    where application_name like 'holdfast %'
  )
order by wait.since, wait.instance, wait.request

-- name: leased
-- Returns the lease or the remaining minimum hold of each name that a call is waiting for, either as a lock or as a
-- lease. Uses the index lease_pkey.
with
-- include: advisory
contended as materialized (
  select key from holdfast.wait where kind <> 'permit'
  union
  select key from advisory where key is not null and not granted
)
select
  lease.key::text as key,
  lease.token <> '' as held,
  lease.instance,
  coalesce(instance.name, lease.instance_name) as instance_name,
  instance.host,
  instance.os_pid,
  (extract(epoch from lease.granted_at) * 1000)::float8 as since_ms,
  greatest(0, extract(epoch from clock_timestamp() - lease.granted_at) * 1000)::float8 as for_ms,
  greatest(0, extract(epoch from lease.expires_at - clock_timestamp()) * 1000)::float8 as free_in_ms
from contended
join holdfast.lease using (key)
left join holdfast.instance_name as instance on instance.id = lease.instance
where lease.expires_at > clock_timestamp()

-- name: limits
-- Returns the permits and the queue for each limit that calls are waiting for. Uses the indexes permit_queue (one step per limit) and
-- permit_pkey.
with recursive entity as (
  (select key from holdfast.permit where fence is null order by key limit 1)
  union all
  select (select min(key) from holdfast.permit where permit.key > entity.key and fence is null)
  from entity
  where key is not null
),
contended as materialized (
  select key from entity where key is not null limit $1
),
placed as materialized (
  select
    permit.key, permit.session, permit.instance, permit.weight, permit.max, permit.since, permit.fence,
    row_number() over (partition by permit.key, permit.fence is null order by permit.fence nulls last, permit.wait_order) as place,
    count(*) over (partition by permit.key, permit.fence is null) as count,
    sum(permit.weight) over (partition by permit.key, permit.fence is null) as weights
  from contended
  join holdfast.permit using (key)
  where permit.weight > 0
    and permit.session = any(array(
      select session
      from (
        select distinct permit.session
        from contended
        join holdfast.permit using (key)
        offset 0
      ) as sessions
      where holdfast.is_present(session)
    ))
)
select
  'limit' as kind,
  placed.key::text as key,
  limit_state.namespace,
  limit_state.name as label,
  null as queue,
  placed.max,
  placed.fence is not null as holds,
  placed.count::integer as count,
  placed.weights::integer as in_use,
  placed.instance,
  instance.name as instance_name,
  instance.host,
  instance.os_pid,
  placed.weight,
  null as job,
  null as job_kind,
  null as job_state,
  null::float8 as free_in_ms,
  (extract(epoch from placed.since) * 1000)::float8 as since_ms,
  greatest(0, extract(epoch from clock_timestamp() - placed.since) * 1000)::float8 as for_ms
from placed
left join holdfast.limit_state on limit_state.key = placed.key
left join holdfast.instance_name as instance on instance.id = placed.instance
where placed.place <= $2
order by placed.key, holds desc, placed.place

-- name: lanes
-- For each lane and each budget that jobs are waiting for, returns the jobs that use its slots, and the waiting jobs in
-- order. If there is room, the jobs are waiting because of the rate limit. Groups that wait for their turn are not
-- listed, because nothing blocks them. Uses the indexes waiting_lane, lane_pkey and job_lane.
with recursive parked_in as (
  (select lane as key from holdfast.waiting where lane is not null order by lane limit 1)
  union all
  select (select min(waiting.lane) from holdfast.waiting where waiting.lane > parked_in.key)
  from parked_in
  where key is not null
),
contended as materialized (
  select parked_in.key, last.*
  from parked_in
  cross join lateral (
    select scope, queue, name, max, active, every, burst, free_at
    from holdfast.lane
    where lane.key = parked_in.key
    order by version desc
    limit 1
  ) as last
  where parked_in.key is not null
    and last.scope <> 'round'
  limit $1
),
placed as (
  select
    contended.key, true as holds, job.id, job.kind, job.since,
    case when job.session is null then 'ready' else 'running' end as state,
    job.session, job.weight,
    null::bigint as count,
    row_number() over (partition by contended.key order by job.id) as place
  from contended
  cross join lateral (
    -- A lane has at most max unfinished jobs, which are among its latest entries unless many of its entries were repeated.
    select f.id, f.kind, f.session, coalesce(f.claimed_at, f.enqueued_at) as since, 1 as weight
    from holdfast.job_find(
      array(
        select entered.id
        from holdfast.job entered
        where contended.scope = 'lane'
          and entered.links ? 'lane'
          and (entered.links->'lane'->>'key')::bigint = contended.key
        order by entered.entry desc
        limit 1000
      )
    ) as f
    where f.state in ('ready', 'running')
    order by f.id
    limit $2
  ) as job
  union all
  -- Claims contain only those jobs with a budget that are running.
  select
    contended.key, true, job.id, job.kind, job.since, 'running', job.session, job.weight, null,
    row_number() over (partition by contended.key order by job.id)
  from contended
  cross join lateral (
    select f.id, f.kind, f.session, f.claimed_at as since, p.weight
    from holdfast.claim
    cross join lateral unnest(claim.place_ids, claim.place_keys, claim.place_weights) as p (id, key, weight)
    cross join lateral holdfast.job_find(array[p.id]) as f
    where contended.scope = 'budget'
      and p.key = contended.key
      and f.state = 'running'
    limit $2
  ) as job
  union all
  select
    contended.key, false, parked.id, parked.kind, parked.enqueued_at, 'waiting', null, parked.weight,
    (
      select count(*)
      from (
        select from holdfast.waiting where waiting.lane = contended.key limit 10000
      ) as counted
    ),
    row_number() over (partition by contended.key order by parked.rank, parked.seq)
  from contended
  cross join lateral (
    select waiting.id, waiting.kind, waiting.enqueued_at, waiting.rank, waiting.seq, p.weight
    from holdfast.waiting
    cross join lateral (
      select weight from holdfast.job_places(waiting.links, 'all') as p where p.key = contended.key limit 1
    ) as p
    where waiting.lane = contended.key
    order by waiting.rank, waiting.seq
    limit $2
  ) as parked
)
select
  contended.scope as kind,
  placed.key::text as key,
  queue.namespace,
  contended.name as label,
  case when contended.scope = 'lane' then queue.name end as queue,
  contended.max,
  placed.holds,
  coalesce(placed.count, contended.active)::integer as count,
  contended.active as in_use,
  case when placed.session is not null then worker.instance end as instance,
  instance.name as instance_name,
  instance.host,
  instance.os_pid,
  placed.weight,
  placed.id::text as job,
  placed.kind as job_kind,
  placed.state as job_state,
  case
    when contended.every is not null and contended.active < contended.max
    then greatest(0, extract(epoch from contended.free_at - clock_timestamp()) * 1000 - (contended.burst - 1) * contended.every / 1e3)
  end::float8 as free_in_ms,
  (extract(epoch from placed.since) * 1000)::float8 as since_ms,
  greatest(0, extract(epoch from clock_timestamp() - placed.since) * 1000)::float8 as for_ms
from placed
join contended using (key)
left join holdfast.queue on queue.key = contended.queue
left join lateral (select min(instance) as instance from holdfast.worker where worker.session = placed.session) as worker on true
left join holdfast.instance_name as instance on instance.id = worker.instance
order by placed.key, placed.holds desc, placed.place

-- name: needs
-- Returns the jobs that block their dependents (see job_blocks_dependent), and the dependents. A finished job does not
-- block dependents that are about to be released or cancelled. Uses the indexes dependency_pkey and waiting_pkey.
with recursive needed as (
  (select needs from holdfast.dependency order by needs limit 1)
  union all
  select (select min(dependency.needs) from holdfast.dependency where dependency.needs > needed.needs)
  from needed
  where needs is not null
),
contended as materialized (
  select f.id, f.kind, f.queue, coalesce(f.ended_at, f.claimed_at, f.enqueued_at) as since,
    case when f.state = 'running' then f.session end as session, f.state
  from holdfast.job_find(array(select needs from needed where needs is not null limit $1)) as f
),
held_back as materialized (
  select
    contended.id as key, who.*,
    (
      select count(*)
      from (
        select
        from holdfast.dependency d
        where d.needs = contended.id
          and holdfast.job_blocks_dependent(contended.state, (select w.links->>'ifFailed' from holdfast.waiting w where w.id = d.job))
        limit 10000
      ) as counted
    ) as count,
    row_number() over (partition by contended.id order by who.id) as place
  from contended
  cross join lateral (
    select waiting.id, waiting.kind, waiting.queue, waiting.enqueued_at
    from (select job from holdfast.dependency where needs = contended.id order by job offset 0) as named
    -- `offset 0` makes the planner look up each job by its ID.
    cross join lateral (select * from holdfast.waiting where id = named.job offset 0) as waiting
    where holdfast.job_blocks_dependent(contended.state, waiting.links->>'ifFailed')
    limit $2
  ) as who
),
placed as (
  select id as key, true as holds, id, kind, queue, since, session, null::bigint as count, 1::bigint as place, state
  from contended
  where id in (select key from held_back)
  union all
  select key, false, id, kind, queue, enqueued_at, null, count, place, 'waiting'
  from held_back
)
select
  'job' as kind,
  placed.key::text as key,
  queue.namespace,
  placed.key::text as label,
  queue.name as queue,
  1 as max,
  placed.holds,
  coalesce(placed.count, 1)::integer as count,
  1 as in_use,
  case when placed.session is not null then worker.instance end as instance,
  instance.name as instance_name,
  instance.host,
  instance.os_pid,
  1 as weight,
  placed.id::text as job,
  placed.kind as job_kind,
  placed.state as job_state,
  null::float8 as free_in_ms,
  (extract(epoch from placed.since) * 1000)::float8 as since_ms,
  greatest(0, extract(epoch from clock_timestamp() - placed.since) * 1000)::float8 as for_ms
from placed
left join holdfast.queue on queue.key = placed.queue
left join lateral (select min(instance) as instance from holdfast.worker where worker.session = placed.session) as worker on true
left join holdfast.instance_name as instance on instance.id = worker.instance
order by placed.key, placed.holds desc, placed.place

-- name: has_blocked_waits
-- Returns whether any call or job is waiting, except election candidates. Costs much less than reading the whole graph. Uses the indexes
-- permit_queue and waiting_lane.
with
-- include: advisory
blocked as materialized (
  select key from advisory where key is not null and not granted
)
select
  exists (select from blocked left join holdfast.name using (key) where label like 'election/%' is not true)
  or exists (select from holdfast.wait left join holdfast.name using (key) where label like 'election/%' is not true)
  or exists (select from holdfast.permit where fence is null)
  or exists (select from holdfast.waiting where lane is not null)
  or exists (select from holdfast.dependency) as has_blocked_waits
