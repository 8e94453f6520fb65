-- Statements that find the holder of a name after a call has failed because of this holder.

-- name: lock_holders
-- Returns the holder of each of the given keys ($1), as a lock or as a lease. For several holders, returns the holder with the earliest
-- known start. The start of a lock is known after about 3 s. Relies on lease_pkey, instance_name_pkey and hold_pkey.
with advisory as materialized (
  select
    pid,
    case objsubid when 1 then (classid::bigint << 32) | objid::bigint end as key,
    case objsubid when 2 then objid::integer end as session
  from pg_locks
  where locktype = 'advisory'
    and granted
    and database = (select oid from pg_database where datname = current_database())
    and (
      objsubid = 1 and ((classid::bigint << 32) | objid::bigint) = any($1::bigint[])
      or objsubid = 2 and classid = (holdfast.session_class()::bigint & 4294967295)::oid
    )
),
locked as materialized (
  select
    advisory.key,
    advisory.pid,
    activity.application_name as application,
    case when activity.application_name like 'holdfast %' then substr(activity.application_name, 10) end as instance,
    (select min(numbered.session) from advisory as numbered where numbered.pid = advisory.pid) as session
  from advisory
  join pg_stat_activity as activity using (pid)
  where advisory.key is not null
)
select distinct on (key)
  key::text as key, instance, name, host, os_pid, application, pid,
  (extract(epoch from clock_timestamp() - since) * 1000)::float8 as held_ms
from (
  select locked.key, locked.instance, known.name, known.host, known.os_pid, locked.application, locked.pid, hold.since
  from locked
  left join holdfast.instance_name as known on known.id = locked.instance
  left join holdfast.hold on hold.session = locked.session and hold.key = locked.key
  union all
  select
    lease.key, lease.instance, coalesce(known.name, lease.instance_name), known.host, known.os_pid, null, null, lease.granted_at
  from holdfast.lease
  left join holdfast.instance_name as known on known.id = lease.instance
  where lease.key = any($1::bigint[])
    and lease.token <> ''
    and lease.expires_at > clock_timestamp()
) as holder
order by key, since nulls last

-- name: permit_holders
-- Returns, for each of the given limits ($1), the present holder with the oldest permit. Relies on permit_pkey and instance_name_pkey.
select
  oldest.key::text as key, oldest.instance, known.name, known.host, known.os_pid, null as application, null::integer as pid,
  (extract(epoch from clock_timestamp() - oldest.since) * 1000)::float8 as held_ms
from unnest($1::bigint[]) as requested (key)
cross join lateral (
  select *
  from (
    select permit.key, permit.session, permit.instance, permit.since, permit.fence
    from holdfast.permit
    where permit.key = requested.key
      and permit.fence is not null
      and permit.weight > 0
    order by permit.fence
    limit 20
  ) as latest
  where holdfast.is_present(session)
  order by fence
  limit 1
) as oldest
left join holdfast.instance_name as known on known.id = oldest.instance
