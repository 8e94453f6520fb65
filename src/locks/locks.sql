-- name: lock_batch
-- Runs the releases and then the lock attempts from one event-loop turn. Returns the number of releases that found no lock, and a
-- comma-separated list with the fence of each attempt, in order. An empty entry means that the name is busy. Fences are assigned after the
-- grant, so that a later holder gets a larger fence. $5 is the fence sequence that the session knows. If the database is restored while the
-- session is open, the statement fails and the client closes the session. The client decodes one row of two texts faster than any other
-- result.
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
  -- Forces the releases to run first.
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
        -- Releases the lock again, because the name is leased.
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
-- Tries to lock one name. This is the most frequent batch, and it costs the server a third less than lock_batch.
select case
  when case when $2::boolean then pg_try_advisory_lock_shared($1::bigint) else pg_try_advisory_lock($1::bigint) end
  then case
    when not holdfast.is_leased($1::bigint) then nextval($3::regclass)
    when $2::boolean then nullif(pg_advisory_unlock_shared($1::bigint)::integer, 1)
    else nullif(pg_advisory_unlock($1::bigint)::integer, 1)
  end
end

-- name: release_one
-- Releases one name.
select case when $2::boolean then pg_advisory_unlock_shared($1::bigint) else pg_advisory_unlock($1::bigint) end

-- name: wait
-- Waits for a name for at most one slice. If a timeout or cancellation coincides with the grant, the session must not keep the lock. The
-- wait therefore acquires a transaction-level lock, which PostgreSQL releases if the statement fails, and then promotes the lock to session
-- level. Returns no fence if the name is leased.
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
-- Returns false if a writer is waiting for the name. Runs on a session that does not hold the name.
select pg_try_advisory_xact_lock_shared($1::bigint)

-- name: cancel
-- Cancels a wait before its slice ends.
select pg_cancel_backend($1::integer)

-- name: count_locks
-- Counts the entries in the server's lock table.
select count(*)
from pg_locks

-- name: record_holds
-- Records locks that have been held for more than 3 seconds.
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
-- Returns the names that belong to the keys. Uses the index name_pkey.
select key, label
from holdfast.name
where key = any($1::bigint[])

-- name: guard
select holdfast.guard_key($1::bigint, $2::bigint, $3::integer)::text as guarded

-- name: in_transaction_try
-- Locks names for the caller's transaction if all of them are free now. After a restart or failover, all names count as busy until no process
-- can rely on an earlier lock and the fences have been moved ahead.
with server as materialized (
  select holdfast.noticed_generation() as generation
),
attempt as materialized (
  select generation, case
    when holdfast.grace_is_over_in(generation) then holdfast.try_transaction_locks($1::bigint[], $2::boolean)
  end as granted
  from server
)
select
  case when granted then nextval('holdfast.fence') end as fence,
  generation is null as is_new_generation
from attempt

-- name: in_transaction_wait
-- Waits for names, in key order, on behalf of the caller's transaction, and then restores the caller's lock_timeout. PostgreSQL applies
-- lock_timeout to each lock separately. The statement therefore limits each lock to the time that remains after the previous locks. Returns
-- no fence if a name is leased, or if a process may still rely on an earlier lock after a restart or failover.
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
-- Begins a new generation after a server restart, and moves the fence sequence ahead.
select holdfast.generation()

-- name: open_space
-- Registers a key space with a random base, or returns the base of an existing key space. The statement is an upsert, because the snapshot
-- of a plain SELECT would not contain a row that another instance has just inserted.
insert into holdfast.key_space (namespace, space, base)
values ($1, $2, $3)
on conflict (namespace, space) do update
set base = key_space.base
returning base
