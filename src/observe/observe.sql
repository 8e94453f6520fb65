-- Read-only statements about locks and leases. Every role that may read the schema may run these statements.

-- name: locks
-- Returns the sessions that hold names or are waiting for names. Reads the name with a key ($1), the names in a
-- namespace ($2), or all names (null). With $3, returns only names that sessions are waiting for. PostgreSQL's lock
-- table is authoritative. Names, times and fencing tokens come from the tables hold and wait. A call that polls or
-- waits inside its process has no session in the lock queue. Such a call has only a row in wait, and its pid is null.
with
-- include: advisory
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
numbered as materialized (
  select pid, session from advisory where session is not null
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
  select instance, key, mode, min(since) as since, count(*) as requests, min(instance_name) as instance_name
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
    case when not present.granted then to_json(pg_blocking_pids(present.pid)) else '[]' end as blocked_by,
    noted.instance_name
  from present
  left join holdfast.hold on hold.session = present.session and hold.key = present.key and present.granted
  left join noted
    on noted.instance = present.instance
    and noted.key = present.key
    and noted.mode = present.mode
    and not present.granted
  union all
  select key, mode, false, null, null, instance, 'holdfast ' || instance, null, null, since, null, requests, '[]', instance_name
  from noted
  where not exists (
    select
    from present
    where present.instance = noted.instance
      and present.key = noted.key
      and (not present.granted and present.mode = noted.mode
        -- PostgreSQL grants the lock first. Up to 1 s later, the instance deletes the row in the table wait. Then the instance inserts the
        -- row in the table hold.
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
  coalesce(instance.name, everything.instance_name) as "instanceName",
  instance.host,
  instance.os_pid as "osPid",
  nullif(application_name, '') as application,
  usename as "user",
  client_address as "clientAddress",
  (extract(epoch from since) * 1000)::float8 as since,
  -- `since` is computed from the wait's age, and may be slightly in the future.
  case when since is not null then greatest(0, extract(epoch from clock_timestamp() - since) * 1000) end::float8 as "forMs",
  fence::float8 as fence,
  requests::integer as requests,
  blocked_by as "blockedBy"
from everything
left join holdfast.name using (key)
left join holdfast.instance_name as instance on instance.id = everything.instance
where ($1::bigint is null or key = $1::bigint)
  and ($2::text is null or name.namespace = $2::text)
order by name.label is null, name.namespace, name.label, key, granted desc, since nulls last, pid

-- name: leases
-- Returns the lease on the name with a key ($1), the leases in a namespace ($2), or all leases (null). A row is
-- authoritative until it expires according to the database clock. A lease without a token was released, and its minimum
-- hold still blocks the name.
select
  lease.key::text as key,
  name.namespace,
  name.label,
  lease.token <> '' as held,
  lease.instance,
  coalesce(instance.name, lease.instance_name) as "instanceName",
  instance.host,
  instance.os_pid as "osPid",
  lease.fence::float8 as fence,
  lease.ttl_ms as "ttlMs",
  (extract(epoch from lease.granted_at) * 1000)::float8 as since,
  greatest(0, extract(epoch from clock_timestamp() - lease.granted_at) * 1000)::float8 as "forMs",
  greatest(0, extract(epoch from lease.expires_at - clock_timestamp()) * 1000)::float8 as "expiresInMs",
  lease.has_waiters as "hasWaiters"
from holdfast.lease
left join holdfast.name using (key)
left join holdfast.instance_name as instance on instance.id = lease.instance
where lease.expires_at > clock_timestamp()
  and ($1::bigint is null or key = $1::bigint)
  and ($2::text is null or name.namespace = $2::text)
order by name.label is null, name.namespace, name.label, key

-- name: clock
select (extract(epoch from clock_timestamp()) * 1000)::float8 as now_ms

-- name: name_of
-- Returns the registered name of a key ($1). Uses the index name_pkey.
select namespace, label
from holdfast.name
where key = $1::bigint
