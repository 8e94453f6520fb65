-- Statements about instances' rows, and about cleaning up after dead instances.

-- name: record_session
-- Begins an epoch for an instance with an anchor, and returns the instance's name. $14 is the wanted name, and $15 is the preferred
-- name, which may have a suffix from an earlier epoch. $16 is the program's version. The commit is flushed to disk, because after a crash the other instances wait for
-- the instances that are recorded in this table.
with flushed as materialized (
  select case when current_setting('synchronous_commit') = 'off' then set_config('synchronous_commit', 'on', true) end
),
named as materialized (
  select holdfast.free_instance_name($2, $1, $14, $15) as name
),
recorded_name as (
  insert into holdfast.instance_name as known (id, namespace, name, host, os_pid, app_version, sessions)
  select $1, $2, named.name, $5, $6, $16, array[$3::integer] from named
  on conflict (id) do update
  set name = excluded.name,
      sessions = known.sessions[greatest(1, cardinality(known.sessions) - 998):] || excluded.sessions,
      gone_at = null,
      ending = null
)
insert into holdfast.instance
  (
    id, namespace, name, session, backend_pid, host, os_pid, version, node, expiry_ms, refused_settings, pooler, state, clock_ahead_ms,
    generation
  )
select
  $1, $2, named.name, $3, $4, $5, $6, $7, $8, $9, $10::text::jsonb, $11, $12,
  $13::float8 - extract(epoch from clock_timestamp()) * 1000, server_generation.generation
from flushed, named, holdfast.server_generation
on conflict (id) do update
set name = excluded.name,
    session = excluded.session,
    backend_pid = excluded.backend_pid,
    refused_settings = excluded.refused_settings,
    pooler = excluded.pooler,
    -- Keeps a drain request that arrived between two epochs.
    state = case when excluded.state = 'open' then instance.state else excluded.state end,
    clock_ahead_ms = excluded.clock_ahead_ms,
    generation = excluded.generation,
    reconnects = instance.reconnects + 1,
    epoch_since = now()
returning name

-- name: drain_request
-- Returns whether an operator has requested that this instance drain.
select drain_within_ms
from holdfast.instance
where id = $1
  and state = 'drain-requested'

-- name: set_drain_state
-- Records the drain state.
update holdfast.instance
set state = $2
where id = $1

-- name: delete_instance
-- Deletes a closing instance's row, and records how the instance ended.
with closed as (
  delete from holdfast.instance
  where id = $1
  returning id, state
)
update holdfast.instance_name
set gone_at = clock_timestamp(),
    ending = case closed.state when 'drained' then 'drained' else 'closed' end
from closed
where instance_name.id = closed.id

-- name: record_row
-- Begins an epoch for an instance without an anchor, which is present until the row expires. $10 is the wanted name, $11 is the
-- preferred name, and $12 is the program's version. The commit is flushed to disk for the same reason as in record_session.
with flushed as materialized (
  select case when current_setting('synchronous_commit') = 'off' then set_config('synchronous_commit', 'on', true) end
),
named as materialized (
  select holdfast.free_instance_name($2, $1, $10, $11) as name, nextval('holdfast.session')::integer as session
),
recorded_name as (
  insert into holdfast.instance_name as known (id, namespace, name, host, os_pid, app_version, sessions)
  select $1, $2, named.name, $3, $4, $12, array[named.session] from named
  on conflict (id) do update
  set name = excluded.name,
      sessions = known.sessions[greatest(1, cardinality(known.sessions) - 998):] || excluded.sessions,
      gone_at = null,
      ending = null
)
insert into holdfast.instance
  (id, namespace, name, session, host, os_pid, version, node, expiry_ms, pooler, state, clock_ahead_ms, generation, expires_at)
select
  $1, $2, named.name, named.session, $3, $4, $5, $6, $7, 'any', $8,
  $9::float8 - extract(epoch from clock_timestamp()) * 1000, server_generation.generation,
  clock_timestamp() + make_interval(secs => $7::integer / 1000.0)
from flushed, named, holdfast.server_generation
on conflict (id) do update
set name = excluded.name,
    session = excluded.session,
    clock_ahead_ms = excluded.clock_ahead_ms,
    generation = excluded.generation,
    expires_at = excluded.expires_at,
    state = case when excluded.state = 'open' then instance.state else excluded.state end,
    reconnects = instance.reconnects + 1,
    epoch_since = now()
returning name, session, state = 'drain-requested' as drain_requested, drain_within_ms, revocations

-- name: renew_row
-- Renews the instance's presence and reads requests from operators. If the statement returns no row, the epoch has ended, because the
-- presence has expired or the server has begun a new generation.
update holdfast.instance
set expires_at = clock_timestamp() + make_interval(secs => expiry_ms / 1000.0)
where id = $1
  and session = $2::integer
  and expires_at > clock_timestamp()
  and generation = holdfast.generation()
returning session, state = 'drain-requested' as drain_requested, drain_within_ms, revocations

-- name: name_is_taken
-- Returns whether a live instance in the namespace ($1), other than the instance with the id $2, has the name $3.
select exists (
  select
  from holdfast.instance
  where namespace = $1
    and name = $3
    and id <> $2
    and holdfast.is_present(session)
) as taken

-- name: advance_fence
select holdfast.advance_fence()

-- name: grace_left
-- Returns the remaining grace period in milliseconds. An instance from an earlier generation that has not reconnected may rely on its locks
-- until its expiry.
select
  coalesce(
    max(expiry_ms - extract(epoch from clock_timestamp() - (select began_at from holdfast.server_generation)) * 1000),
    0
  )::float8 as left_ms
from holdfast.instance
where generation < (select generation from holdfast.server_generation)

-- name: sweep
-- Deletes rows for epochs that are no longer present, and names, fences and elections that have not been used for a month. Also deletes the
-- names of instances that have been gone for $1 days. Each part has a limit, so that the statement stays small. Returns the number of parts
-- that reached their limit. Uses name_used_at, fence_guard_used_on and instance_name_gone_at.
with alive as materialized (
  select objid::integer as session
  from pg_locks
  where locktype = 'advisory'
    and database = (select oid from pg_database where datname = current_database())
    and classid = (holdfast.session_class()::bigint & 4294967295)::oid
    and objsubid = 2
    and granted
  union
  select session
  from holdfast.instance
  where expires_at > now()
),
connected as materialized (
  select application_name
  from pg_stat_activity
  where application_name like 'holdfast %'
),
dead_instances as (
  delete from holdfast.instance
  where id in (
    select id
    from holdfast.instance
    where session not in (select session from alive)
      -- Between two epochs, an instance can rely on a lock of another session. After a restart, the others must wait for this instance.
      and 'holdfast ' || id not in (select application_name from connected)
      and epoch_since < now() - interval '1 minute'
      and (expires_at is null or expires_at < now() - interval '1 minute')
    limit 1000
    for update skip locked
  )
  returning 1
),
gone_instances as (
  update holdfast.instance_name
  set gone_at = now(),
      ending = 'lost'
  where id in (
    select id
    from holdfast.instance_name
    where gone_at is null
      and id not in (select id from holdfast.instance)
    limit 1000
    for update skip locked
  )
  returning 1
),
unused_instance_names as (
  delete from holdfast.instance_name
  where id in (
    select id
    from holdfast.instance_name
    where gone_at < now() - make_interval(days => $1::integer)
      and id not in (select id from holdfast.instance)
    order by gone_at
    limit 1000
    for update skip locked
  )
  returning 1
),
dead_holds as (
  delete from holdfast.hold
  where (session, key) in (
    select session, key
    from holdfast.hold
    where session not in (select session from alive)
    limit 10000
    for update skip locked
  )
  returning 1
),
dead_waits as (
  delete from holdfast.wait
  where (instance, request) in (
    select instance, request
    from holdfast.wait
    where instance not in (select id from holdfast.instance where session in (select session from alive))
      and coalesce(valid_until, since) < now() - interval '1 minute'
    limit 1000
    for update skip locked
  )
  returning 1
),
dead_candidates as (
  delete from holdfast.candidate
  where (namespace, name, session) in (
    select namespace, name, session
    from holdfast.candidate
    where session not in (select session from alive)
    limit 1000
    for update skip locked
  )
  returning 1
),
dead_members as (
  delete from holdfast.share_member
  where (namespace, share, instance) in (
    select namespace, share, instance
    from holdfast.share_member
    where session not in (select session from alive)
    limit 1000
    for update skip locked
  )
  returning 1
),
unused_names as (
  delete from holdfast.name
  where key in (
    select key
    from holdfast.name
    where used_at < now() - interval '30 days'
    order by used_at
    limit 1000
    for update skip locked
  )
  returning 1
),
unused_fences as (
  delete from holdfast.fence_guard
  where key in (
    select key
    from holdfast.fence_guard
    where used_on < (now() at time zone 'UTC')::date - 31
    order by used_on
    limit 1000
    for update skip locked
  )
  returning 1
),
unused_elections as (
  delete from holdfast.election
  where (namespace, name) in (
    select namespace, name
    from holdfast.election
    where (session is null or session not in (select session from alive))
      and since < now() - interval '30 days'
    limit 1000
    for update skip locked
  )
  returning 1
)
select (
    (select count(*) = 1000 from dead_instances)::integer
    + (select count(*) = 1000 from gone_instances)::integer
    + (select count(*) = 1000 from unused_instance_names)::integer
    + (select count(*) = 10000 from dead_holds)::integer
    + (select count(*) = 1000 from dead_waits)::integer
    + (select count(*) = 1000 from dead_candidates)::integer
    + (select count(*) = 1000 from dead_members)::integer
    + (select count(*) = 1000 from unused_names)::integer
    + (select count(*) = 1000 from unused_fences)::integer
    + (select count(*) = 1000 from unused_elections)::integer
  ) as more
