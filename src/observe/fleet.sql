-- Read-only statements about instances.

-- name: fleet
-- Returns the total number of instances in a namespace ($1, or null for all) whose name, ID, host or process contains a text ($2, or null).
-- Also returns at most $3 of these instances. Dead instances are never cut off, and are listed last. An instance is alive while its session number is locked
-- or, without an anchor, until its row expires. An instance was last seen when its anchor session last changed state, or when its row was
-- last renewed.
with
-- include: advisory
activity as materialized (
  select pid, substr(application_name, 10) as instance, state_change
  from pg_stat_activity
  where application_name like 'holdfast %'
),
present as (
  select activity.instance, key, granted
  from advisory
  join activity using (pid)
  where key is not null
),
held as (
  select instance, count(*) as names from present where granted group by instance
),
waited as (
  select instance, count(*) as names
  from (
    select instance, key from present where not granted
    union
    select instance, key from holdfast.wait where kind <> 'permit'
  ) as w
  group by instance
),
leased as (
  select instance, count(*) as names
  from holdfast.lease
  where expires_at > clock_timestamp()
    and token <> ''
  group by instance
),
working as (
  select session, count(*) as workers from holdfast.worker group by session
),
claimed as (
  select session, sum(cardinality(ids)) as jobs from holdfast.claim group by session
),
found as materialized (
  select
    instance.*,
    instance.session in (select session from advisory where session is not null) or coalesce(instance.expires_at > clock_timestamp(), false) as alive,
    activity.state_change
  from holdfast.instance
  left join activity on activity.pid = instance.backend_pid and activity.instance = instance.id
  where ($1::text is null or namespace = $1)
    and ($2::text is null or strpos(lower(name || ' ' || id || ' ' || host || '/' || os_pid), lower($2)) > 0)
)
select json_build_object(
  'count', (select count(*) from found),
  'gone', (select count(*) from found where not alive),
  'draining', (select count(*) from found where alive and state <> 'open'),
  'rows', coalesce((
    select json_agg(i order by not alive, state = 'open', name, id)
    from (
      select
        id,
        namespace,
        name,
        host,
        os_pid as "osPid",
        version,
        node,
        state,
        alive,
        expires_at is null as "isAnchored",
        case when expires_at is null then backend_pid end as pid,
        pooler,
        expiry_ms as "expiryMs",
        reconnects,
        refused_settings as "refusedSettings",
        extract(epoch from opened_at) * 1000 as "openedAt",
        extract(epoch from clock_timestamp() - opened_at) * 1000 as "forMs",
        extract(epoch from epoch_since) * 1000 as "epochSince",
        case
          when expires_at is null then extract(epoch from state_change) * 1000
          else extract(epoch from expires_at) * 1000 - expiry_ms
        end as "lastSeenAt",
        round(clock_ahead_ms) as "clockAheadMs",
        coalesce(held.names, 0) as held,
        case when alive then coalesce(waited.names, 0) else 0 end as waiting,
        coalesce(leased.names, 0) as leased,
        coalesce(workers, 0) as workers,
        coalesce(jobs, 0) as jobs
      from found
      left join held on held.instance = id
      left join waited on waited.instance = id
      left join leased on leased.instance = id
      left join working on working.session = found.session
      left join claimed on claimed.session = found.session
      order by alive, state = 'open', name, id
      limit $3::integer
    ) as i
  ), '[]')
) as answer

-- name: instance
-- Returns one instance's names, jobs, ticks and deliveries ($1 is the instance ID), at most $2 of each. Searches only the $3 latest deliveries,
-- because no index contains the sessions of deliveries. Uses the indexes name_pkey, job_pkey, tick_active and delivery_expires_at.
with
-- include: running_job
-- include: advisory
row as materialized (
  select * from holdfast.instance where id = $1
),
locked as materialized (
  select key, case mode when 'ShareLock' then 'shared' else 'exclusive' end as mode, granted, waitstart
  from advisory
  where key is not null
    and pid in (select pid from pg_stat_activity where application_name = 'holdfast ' || $1)
),
noted as (
  select key, kind, mode, min(since) as since from holdfast.wait where instance = $1 group by key, kind, mode
),
latest_delivery as materialized (
  select namespace, key, state, instance, session, started_at
  from holdfast.delivery
  order by expires_at desc
  limit (select $3::integer)
),
waits as (
  select key, 'lock' as kind, mode, waitstart as since
  from locked
  where not granted
    and key not in (select key from noted where kind = 'lock')
  union all
  select key, kind, mode, since from noted
)
select json_build_object(
  'generation', (select generation from row),
  'drainWithinMs', (select drain_within_ms from row),
  'holds', (
    select json_agg(h)
    from (
      select
        locked.key::text,
        name.namespace,
        name.label,
        locked.mode,
        extract(epoch from hold.since) * 1000 as "sinceMs",
        hold.fence::text
      from locked
      left join holdfast.name using (key)
      left join holdfast.hold on hold.key = locked.key and hold.session = (select session from row)
      where granted
      order by hold.since, name.label, key
      limit $2::integer
    ) as h
  ),
  'waits', (
    select json_agg(w)
    from (
      select key::text, name.namespace, name.label, kind, mode, extract(epoch from since) * 1000 as "sinceMs"
      from waits
      left join holdfast.name using (key)
      order by since
      limit $2::integer
    ) as w
  ),
  'leases', (
    select json_agg(l)
    from (
      select
        key::text, name.namespace, name.label, fence::text, has_waiters as "hasWaiters",
        extract(epoch from granted_at) * 1000 as "sinceMs"
      from holdfast.lease
      left join holdfast.name using (key)
      where expires_at > clock_timestamp()
        and token <> ''
        and instance = $1
      order by granted_at
      limit $2::integer
    ) as l
  ),
  'permits', (
    select json_agg(p)
    from (
      select
        limit_state.namespace, limit_state.name, permit.weight, permit.fence is not null as granted,
        extract(epoch from permit.since) * 1000 as "sinceMs"
      from holdfast.permit
      join holdfast.limit_state using (key)
      where permit.instance = $1
        and permit.session = (select session from row)
        and permit.weight > 0
      order by permit.since
      limit $2::integer
    ) as p
  ),
  'workers', (
    select json_agg(w order by number)
    from (
      select
        number, sleeping, extract(epoch from since) * 1000 as "sinceMs",
        array(select coalesce(queue.name, key::text) from unnest(queues) as key left join holdfast.queue using (key)) as queues
      from holdfast.worker
      where session = (select session from row)
      order by number
      limit $2::integer
    ) as w
  ),
  'jobs', (
    select json_agg(j)
    from (
      select
        job.id::text, job.kind, queue.name as queue, queue.namespace, note.progress, note.cancelled,
        extract(epoch from running_job.claimed_at) * 1000 as "sinceMs"
      from running_job
      cross join lateral (
        select * from holdfast.job where job.id = running_job.id order by entry desc limit 1
      ) as job
      left join lateral (
        select progress, cancelled from holdfast.job_note where job_note.id = job.id and job_note.fence = running_job.fence offset 0
      ) as note on true
      left join holdfast.queue on queue.key = job.queue
      where running_job.session = (select session from row)
      order by job.id
      limit $2::integer
    ) as j
  ),
  'runs', (
    select json_agg(r)
    from (
      select schedule.namespace, schedule.name, extract(epoch from tick.at) * 1000 as "tickMs", tick.extra,
        extract(epoch from tick.started_at) * 1000 as "sinceMs"
      from holdfast.schedule_member
      join holdfast.schedule on schedule.key = schedule_member.schedule
      cross join lateral (
        select *
        from holdfast.tick
        where tick.schedule = schedule.key
          and tick.state in ('running', 'waiting')
          and tick.state = 'running'
          and tick.instance = $1
      ) as tick
      where schedule_member.instance = $1
      order by tick.started_at
      limit $2::integer
    ) as r
  ),
  'schedules', (select count(*) from holdfast.schedule_member where instance = $1),
  'leads', (
    select json_agg(json_build_object('namespace', namespace, 'name', name, 'sinceMs', extract(epoch from since) * 1000) order by since)
    from (
      select * from holdfast.election where instance = $1 and session = (select session from row) limit $2::integer
    ) as e
  ),
  'deliveries', (
    select json_agg(d)
    from (
      select namespace, key, extract(epoch from started_at) * 1000 as "sinceMs"
      from latest_delivery
      where state = 'in-flight'
        and instance = $1
        and session = (select session from row)
      order by started_at
      limit $2::integer
    ) as d
  ),
  'areDeliveriesCut', (select count(*) = $3::integer from latest_delivery)
) as answer
where exists (select from row)
