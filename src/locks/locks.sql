-- Session locks, asked for in batches, and what is noted about long ones.

-- name: lock_batch
-- All that was asked for in one turn of the event loop: first the releases, then the tries. Answers with how many of
-- the releases found nothing to release, and with the fence of each try, in order and comma-separated; an empty place
-- is a name that was busy. The fence is drawn after the lock is granted, so that a later holder has a larger one. From the
-- sequence that the session knows ($5): after a restore under a living session this fails, and the session is given up.
-- One row of two texts, because that is what a client decodes fastest.
with released as materialized (
  select case when shared then pg_advisory_unlock_shared(key) else pg_advisory_unlock(key) end as was_held
  from unnest($1::bigint[], $2::boolean[]) as r (key, shared)
),
misses as materialized (
  select count(*) filter (where not was_held) as count
  from released
),
tried as materialized (
  select
    key,
    shared,
    case when shared then pg_try_advisory_lock_shared(key) else pg_try_advisory_lock(key) end as granted
  from misses, unnest($3::bigint[], $4::boolean[]) as t (key, shared)
  -- Depends on the releases, so that these come first.
  where misses.count >= 0
),
leased as materialized (
  select case
    when exists (select from tried where granted) then holdfast.leased_keys(array(select key from tried where granted))
  end as keys
)
select
  misses.count,
  array_to_string(
    array(
      select case
        when granted and key <> all(leased.keys) then nextval($5::regclass)
        -- Somebody has the name by lease: what was taken is given back.
        when granted and shared then nullif(pg_advisory_unlock_shared(key)::integer, 1)
        when granted then nullif(pg_advisory_unlock(key)::integer, 1)
      end
      from leased, tried
    ),
    ',',
    ''
  )
from misses

-- name: try_one
-- A batch of one try and nothing else: the commonest of all, at two thirds of what the whole statement costs the server.
select case
  when case when $2::boolean then pg_try_advisory_lock_shared($1::bigint) else pg_try_advisory_lock($1::bigint) end
  then case
    when not holdfast.is_leased($1::bigint) then nextval($3::regclass)
    when $2::boolean then nullif(pg_advisory_unlock_shared($1::bigint)::integer, 1)
    else nullif(pg_advisory_unlock($1::bigint)::integer, 1)
  end
end

-- name: release_one
-- A batch of one release and nothing else.
select case when $2::boolean then pg_advisory_unlock_shared($1::bigint) else pg_advisory_unlock($1::bigint) end

-- name: wait
-- Waits for a name, for at most a slice. A wait that times out or is cancelled in the instant of the grant must not
-- leave the session with the lock: so the lock is waited for at the level of the transaction, which gives it back
-- when the statement fails, and promoted to the session once it is granted. No fence: somebody has the name by lease.
with slice as materialized (
  select set_config('lock_timeout', $3, true) as lock_timeout
),
granted as materialized (
  select case
    when $2::boolean then pg_advisory_xact_lock_shared($1::bigint)::text
    else pg_advisory_xact_lock($1::bigint)::text
  end as granted
  from slice
),
promoted as materialized (
  select case
    when $2::boolean then pg_advisory_lock_shared($1::bigint)::text
    else pg_advisory_lock($1::bigint)::text
  end as promoted
  from granted
)
select case
  when not holdfast.is_leased($1::bigint) then nextval($4::regclass)
  when $2::boolean then nullif(pg_advisory_unlock_shared($1::bigint)::integer, 1)
  else nullif(pg_advisory_unlock($1::bigint)::integer, 1)
end
from promoted

-- name: admits_readers
-- Whether a new reader would be let in: false when a writer waits. Asked on a session that does not hold the name.
select pg_try_advisory_xact_lock_shared($1::bigint)

-- name: cancel
-- Ends a slice of waiting early.
select pg_cancel_backend($1::integer)

-- name: count_locks
-- How full the server's lock table is.
select count(*)
from pg_locks

-- name: record_holds
-- Notes what has been held for longer than a heartbeat, for people to see since when.
insert into holdfast.hold (session, key, mode, fence, since)
select session, key, mode, fence, now() - make_interval(secs => age_ms / 1000)
from unnest($1::integer[], $2::bigint[], $3::text[], $4::bigint[], $5::float8[]) as h (session, key, mode, fence, age_ms)
on conflict (session, key) do update
set mode = excluded.mode,
    fence = excluded.fence,
    since = excluded.since

-- name: delete_holds
delete from holdfast.hold
where (session, key) in (select session, key from unnest($1::integer[], $2::bigint[]) as h (session, key))

-- name: labels
-- What people call some keys. Relies on name_pkey.
select key, label
from holdfast.name
where key = any($1::bigint[])

-- name: guard
select holdfast.guard_key($1::bigint, $2::bigint, $3::integer)::text as guarded

-- name: in_transaction_try
-- Takes names for the caller's transaction if all are free now. In key order; stops at the first busy one. After a restart or
-- failover nothing is free until nobody can believe in a lock of before, and until the fences have been moved ahead.
with recursive server as materialized (
  select holdfast.noticed_generation() as generation
),
grace as materialized (
  select coalesce(holdfast.grace_is_over_in(generation), false) as yes
  from server
),
taken as (
  -- Before anything is taken, because one name alone is asked for without a savepoint.
  select 0 as place, yes and holdfast.leased_keys($1::bigint[]) = '{}' as granted
  from grace
  union all
  select place + 1, case when $2::boolean
    then pg_try_advisory_xact_lock_shared(($1::bigint[])[place + 1])
    else pg_try_advisory_xact_lock(($1::bigint[])[place + 1])
  end
  from taken
  where granted
    and place < cardinality($1::bigint[])
)
select
  case when bool_and(granted) and holdfast.leased_keys($1::bigint[]) = '{}' then nextval('holdfast.fence') end as fence,
  bool_and(server.generation is null) as is_new_generation
from taken
cross join server

-- name: in_transaction_wait
-- Waits for names, in key order, for the caller's transaction; the caller's own lock_timeout is put back. The server counts that
-- for each lock, we for all together: each has what the ones before it have left. No fence: somebody has one of them by lease,
-- or may still believe in it after a restart or failover.
with server as materialized (
  select holdfast.noticed_generation() as generation
),
before as materialized (
  select current_setting('lock_timeout') as lock_timeout
),
granted as materialized (
  select before.lock_timeout, case
    when set_config(
      'lock_timeout',
      case when $3::integer > 0
        then greatest(1, $3::integer - floor(extract(epoch from clock_timestamp() - statement_timestamp()) * 1000))
        else 0
      end::text,
      true
    ) is null then null
    when $2::boolean then pg_advisory_xact_lock_shared(key)::text
    else pg_advisory_xact_lock(key)::text
  end as granted
  from before, unnest($1::bigint[]) as key
)
select
  case when holdfast.grace_is_over_in(generation) and holdfast.leased_keys($1::bigint[]) = '{}' then nextval('holdfast.fence') end as fence,
  generation is null as is_new_generation,
  set_config('lock_timeout', min(lock_timeout), true)
from granted
cross join server
group by generation

-- name: begin_generation
-- Begins the generation of a server that nobody has noticed yet, and moves the fences ahead.
select holdfast.generation()

-- name: open_space
-- Registers a key space under a random base, or finds the one that it has. Not by a second look: the snapshot of this
-- statement would not show a row that another instance has just written.
insert into holdfast.key_space (namespace, space, base)
values ($1, $2, $3)
on conflict (namespace, space) do update
set base = key_space.base
returning base
