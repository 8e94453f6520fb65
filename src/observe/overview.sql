-- Statements for the overview. Each statement returns one JSON document. Lists are bounded, and only the end of the job history is read.

-- name: fleet
-- Returns the instances, the names that are held or waited for, and the leases in a namespace ($1, or null for all), at most $2 rows of
-- each, after skipping $4 locks and $4 leases. Lists only names that contain a text ($3, or null for all). Uses the same sources as the `locks` statement, but does not call
-- pg_blocking_pids, which would lock the whole lock table for each waiting session.
with
-- include: advisory
activity as materialized (
  select
    pid,
    application_name,
    usename,
    case when application_name like 'holdfast %' then substr(application_name, 10) end as instance
  from pg_stat_activity
),
-- Uses a window function instead of a join. For a join, the planner would choose a nested loop, because it estimates that there is only one
-- lock.
numbered as materialized (
  select key, mode, granted, pid, waitstart, max(session) over (partition by pid) as session from advisory
),
part as materialized (
  select
    key,
    case mode when 'ShareLock' then 'shared' else 'exclusive' end as mode,
    granted,
    pid,
    waitstart,
    application_name,
    usename,
    instance,
    session
  from numbered
  left join activity using (pid)
  where key is not null
),
held as materialized (
  select part.key, part.mode, part.pid, part.application_name, part.usename, part.instance, hold.since, hold.fence
  from part
  left join holdfast.hold on hold.session = part.session and hold.key = part.key
  where granted
),
noted as materialized (
  select instance, key, min(since) as since, count(*) as requests
  from holdfast.wait
  where kind = 'lock'
    and instance in (select instance from activity)
    -- PostgreSQL grants the lock first. Up to 1 s later, the instance deletes the row in the table wait. Then the instance inserts the row
    -- in the table hold.
    and not exists (
      select from held where held.instance = wait.instance and held.key = wait.key and held.since is null
    )
  group by instance, key
),
waited as materialized (
  select
    key,
    instance,
    min(pid) as pid,
    min(application_name) as application_name,
    min(usename) as usename,
    coalesce(min(noted.since), min(part.waitstart)) as since,
    coalesce(min(noted.requests), count(*)) as requests
  from (select * from part where not granted) as part
  full join noted using (key, instance)
  group by key, instance, case when instance is null then pid end
),
holder as materialized (
  select distinct on (key) *, count(*) over (partition by key) as holders
  from held
  order by key, since nulls last, pid
),
waiter as materialized (
  select distinct on (key) *, sum(requests) over (partition by key) as calls
  from waited
  order by key, since nulls last, pid
),
named as materialized (
  select
    key,
    name.namespace,
    name.label,
    holder.mode,
    coalesce(holder.holders, 0) as holders,
    coalesce(waiter.calls, 0) as waiters,
    holder.instance as holder_instance,
    coalesce(holder.application_name, holder.usename) as holder_application,
    holder.pid as holder_pid,
    waiter.instance as waiter_instance,
    coalesce(waiter.application_name, waiter.usename) as waiter_application,
    waiter.pid as waiter_pid,
    holder.since as held_since,
    waiter.since as waited_since,
    holder.fence
  from holder
  full join waiter using (key)
  left join holdfast.name using (key)
  where ($1::text is null or name.namespace = $1)
    and ($3::text is null or strpos(lower(coalesce(name.label, key::text)), lower($3)) > 0)
),
leased as materialized (
  select
    lease.*,
    has_waiters or key in (select key from holdfast.wait where kind = 'lease') as waited_for,
    name.namespace,
    name.label
  from holdfast.lease
  left join holdfast.name using (key)
  where lease.expires_at > clock_timestamp()
    and ($1::text is null or name.namespace = $1)
    and ($3::text is null or strpos(lower(coalesce(name.label, key::text)), lower($3)) > 0)
),
known as materialized (
  select
    instance.*,
    session in (select session from numbered where session is not null) or coalesce(expires_at > clock_timestamp(), false) as alive
  from holdfast.instance
  where $1::text is null
    or namespace = $1
)
select json_build_object(
  'now', extract(epoch from clock_timestamp()) * 1000,
  'server', current_setting('server_version'),
  'instances', (select count(*) from known),
  'gone', (select count(*) from known where not alive),
  'held', (select count(*) from named where holders > 0),
  'waitedFor', (select count(*) from named where waiters > 0),
  'waiters', (select coalesce(sum(waiters), 0) from named),
  'leased', (select count(*) from leased),
  'instanceRows', (
    select json_agg(i order by not i.alive, i."openMs" desc, i.id)
    from (
      select
        id,
        namespace,
        name,
        host,
        os_pid as "osPid",
        version,
        alive,
        state,
        coalesce(h.names, 0) as held,
        coalesce(w.calls, 0) as waiting,
        coalesce(l.names, 0) as leased,
        coalesce(working.workers, 0) as workers,
        reconnects,
        extract(epoch from clock_timestamp() - opened_at) * 1000 as "openMs"
      from known
      left join (select instance as id, count(*) as names from held group by instance) as h using (id)
      left join (select instance as id, sum(requests) as calls from waited group by instance) as w using (id)
      left join (select instance as id, count(*) as names from leased where token <> '' group by instance) as l using (id)
      left join (select session, count(*) as workers from holdfast.worker group by session) as working using (session)
      order by alive, opened_at, id
      limit $2::integer
    ) as i
  ),
  'lockRows', (
    select json_agg(l)
    from (
      select
        key::text,
        named.namespace,
        label,
        mode,
        holders,
        case when holders > 0 then json_build_object('instance', holder_instance, 'instanceName', holding.name, 'host', holding.host, 'osPid', holding.os_pid,
          'application', holder_application, 'pid', holder_pid) end as holder,
        extract(epoch from clock_timestamp() - held_since) * 1000 as "heldMs",
        fence,
        waiters,
        case when waiters > 0 then json_build_object('instance', waiter_instance, 'instanceName', waiting.name, 'host', waiting.host, 'osPid', waiting.os_pid,
          'application', waiter_application, 'pid', waiter_pid) end as waiter,
        extract(epoch from clock_timestamp() - waited_since) * 1000 as "waitedMs"
      from named
      left join holdfast.instance_name as holding on holding.id = holder_instance
      left join holdfast.instance_name as waiting on waiting.id = waiter_instance
      -- Candidates are always waiting for their election, so their waits are not a problem.
      order by waiters = 0, coalesce(label like 'election/%', false), waited_since, held_since nulls last, label, key
      limit $2::integer offset $4::integer
    ) as l
  ),
  'leaseRows', (
    select json_agg(l)
    from (
      select
        leased.key::text,
        leased.namespace,
        leased.label,
        token <> '' as held,
        json_build_object('instance', leased.instance, 'instanceName', coalesce(owner.name, leased.instance_name), 'host', owner.host,
          'osPid', owner.os_pid, 'application', null, 'pid', null) as holder,
        leased.fence,
        leased.ttl_ms as "ttlMs",
        leased.waited_for as "hasWaiters",
        extract(epoch from clock_timestamp() - leased.granted_at) * 1000 as "heldMs",
        extract(epoch from leased.expires_at - clock_timestamp()) * 1000 as "expiresInMs"
      from leased
      left join holdfast.instance_name as owner on owner.id = leased.instance
      order by not waited_for, leased.granted_at, leased.key
      limit $2::integer offset $4::integer
    ) as l
  )
) as answer

-- name: recent
-- Returns the number of jobs that ended in the last minute, and the failures from the last $4 milliseconds, in a namespace ($2, or null for all)
-- and in at most $3 queues: at most $5 per queue or schedule, and at most $6 in total. Finished jobs are counted for up to a minute (see
-- recent_history). Uses the indexes job_id, job_stopped_state, tick_not_done and gap_pkey.
with
-- include: recent_history
since as materialized (
  select until, at from counted_from
),
ended as (
  select
    queue,
    count(*) filter (where state = 'done') as done,
    count(*) filter (where state = 'buried') as buried,
    percentile_cont(array[0.5, 0.99]) within group (
      order by (extract(epoch from claimed_at - enqueued_at) * 1000)::float8
    ) filter (where failed = 0 and crashes = 0 and claimed_at is not null) as waited,
    percentile_cont(array[0.5, 0.99]) within group (
      order by (extract(epoch from ended_at - claimed_at) * 1000)::float8
    ) filter (where state = 'done' and claimed_at is not null) as took
  from tail
  where ended_at >= (select at from since)
  group by queue
),
trouble as (
  select *
  from (
    select
      'buried' as kind, h.ended_at as at, queue.namespace, queue.name as subject, h.id::text as id, h.kind as job_kind,
      h.error, null as detail, null as instance, h.session
    from (select * from holdfast.queue where $2::text is null or namespace = $2 order by namespace, name limit $3::integer) as queue
    cross join lateral (
      select *
      from holdfast.job_stopped h
      where h.queue = queue.key
        and h.state = 'buried'
        and h.ended_at > clock_timestamp() - $4::float8 * interval '1 millisecond'
      order by id desc
      limit $5::integer
    ) as h
    union all
    select
      tick.state, tick.ended_at, s.namespace, s.name, null, null, tick.error, null, tick.instance, null
    from holdfast.schedule s
    cross join lateral (
      select *
      from holdfast.tick
      where tick.schedule = s.key
        and tick.state in ('failed', 'broken')
      order by at desc
      limit $5::integer
    ) as tick
    -- Omits stored schedules, of which there can be 100,000. Their problems appear as problems of their jobs.
    where s.job_head is null
      and tick.ended_at > clock_timestamp() - $4::float8 * interval '1 millisecond'
      and ($2::text is null or s.namespace = $2)
    union all
    select
      'gap', gap.last_at, s.namespace, s.name, null, null, null, gap.ticks || ' without a run: ' || gap.reason, null, null
    from holdfast.schedule s
    cross join lateral (
      select *
      from holdfast.gap
      where gap.schedule = s.key
      order by first_at desc
      limit $5::integer
    ) as gap
    where s.job_head is null
      and gap.reason <> 'paused'
      and gap.last_at > clock_timestamp() - $4::float8 * interval '1 millisecond'
      and ($2::text is null or s.namespace = $2)
    union all
    select *
    from (
      select
        'lease', lease.expires_at, name.namespace, coalesce(name.label, 'key ' || lease.key), null, null, null::json,
        'its holder did not renew the lease', lease.instance, null::integer
      from holdfast.lease
      left join holdfast.name using (key)
      where lease.expires_at between clock_timestamp() - $4::float8 * interval '1 millisecond' and clock_timestamp()
        and token <> ''
        and ($2::text is null or name.namespace = $2)
      order by lease.expires_at desc
      limit $6::integer
    ) as lost
    union all
    select
      'reconnected', epoch_since, namespace, name, null, null, null,
      format('database session lost; reconnected %s time%s', reconnects, case when reconnects > 1 then 's' end), id, null
    from holdfast.instance
    where reconnects > 0
      and epoch_since > clock_timestamp() - $4::float8 * interval '1 millisecond'
      and ($2::text is null or namespace = $2)
  ) as everything
  order by at desc
  limit $6::integer
),
-- Applies the limit first, so that only a few sessions are looked up.
owned_trouble as materialized (
  select trouble.*, known.id as owner, known.name as owner_name
  from trouble
  left join lateral (select coalesce(trouble.instance, holdfast.instance_of_session(trouble.session)) as id offset 0) as by on true
  left join holdfast.instance_name as known on known.id = by.id
)
select json_build_object(
  'overMs', (select extract(epoch from until - at) * 1000 from since),
  'ended', (
    select json_agg(json_build_object(
      'key', queue::text, 'done', done, 'buried', buried, 'waited', waited, 'took', took
    ))
    from ended
  ),
  'trouble', (
    select json_agg(json_build_object(
      'kind', kind,
      'atMs', extract(epoch from at) * 1000,
      'agoMs', extract(epoch from clock_timestamp() - at) * 1000,
      'namespace', namespace,
      'subject', subject,
      'id', id,
      'jobKind', job_kind,
      -- Separate from the detail, because the dashboard redacts errors.
      'error', case
        when error ->> 'name' is not null or error ->> 'message' is not null
        then json_build_object('name', error ->> 'name', 'message', left(error ->> 'message', 1000))
      end,
      'detail', left(detail, 1000),
      'instance', coalesce(owner, instance),
      'instanceName', owner_name
    ) order by at desc)
    from owned_trouble
  )
) as answer
