-- name: acquire_one prepared
-- Grants one name if it is free. This is the most frequent request, and it costs the server half as much as acquire.
select grace_over, granted_fence as fence, is_fresh as fresh, free_in_ms, lease_has_waiters as has_waiters
from holdfast.acquire_lease($1::bigint, $2, $3::integer, $4::bigint, $5, $6)

-- name: acquire prepared
-- Grants the names that are free. The parameters are each name's key, token, TTL and minimum hold. For a granted name, returns the fence and whether
-- this call granted it. For any other name, returns the time until the expiry. The statement calls a function, because PL/pgSQL caches plans even
-- without prepared statements, and planning takes twice as long as execution.
select grace_over, granted_fence as fence, is_fresh as fresh, free_in_ms, lease_has_waiters as has_waiters
from holdfast.acquire_leases($1::bigint[], $2::text[], $3::integer[], $4::bigint[], $5, $6)

-- name: mark_waited_for
-- Requests a notification for when each given name is released. Locks rows in key order. Uses the index lease_pkey.
with rows as materialized (
  select key
  from holdfast.lease
  where key = any($1::bigint[])
    and not has_waiters
    and expires_at > clock_timestamp()
  order by key
  for update
)
update holdfast.lease
set has_waiters = true
where key in (select key from rows)

-- name: renew_leases
-- Renews leases, and returns each renewed lease's key and token. An expired lease is not renewed, because another process may have locked the
-- name since then. expires_at never moves to an earlier time, because an older statement may arrive last, or another holder with the token may
-- request a shorter TTL. The commit is flushed, because the name could be granted too early if a crash lost a renewal.
with flushed as materialized (
  select case when current_setting('synchronous_commit') = 'off' then set_config('synchronous_commit', 'on', true) end
),
rows as materialized (
  select lease.key, asked.ttl_ms
  from flushed, unnest($1::bigint[], $2::text[], $3::integer[]) as asked (key, token, ttl_ms)
  join holdfast.lease on lease.key = asked.key and lease.token = asked.token
  where lease.expires_at > clock_timestamp()
  order by lease.key
  for update of lease
)
update holdfast.lease
set ttl_ms = rows.ttl_ms,
    expires_at = greatest(lease.expires_at, clock_timestamp() + make_interval(secs => rows.ttl_ms / 1000.0))
from rows
where lease.key = rows.key
returning lease.key, lease.token

-- name: release_one prepared
-- Releases one lease. Returns whether the token held the lease.
select holdfast.release_lease($1::bigint, $2, $3::bigint, $4) as released

-- name: release prepared
-- Releases leases by key, token and fence. If the fence is null, releases them by key and token alone. Returns each released lease's key and token.
select released_key as key, released_token as token
from holdfast.release_leases($1::bigint[], $2::text[], $3::bigint[], $4)

-- name: sweep
-- Deletes up to $1 rows whose names have been free for an hour. Reads the whole table, because a release deletes its
-- row. The table therefore contains almost only live leases, and an index on their expiry would make each renewal more
-- expensive.
with removed as (
  delete from holdfast.lease
  where key in (
    select key
    from holdfast.lease
    where expires_at < now() - interval '1 hour'
    limit $1::integer
    for update skip locked
  )
  returning 1
)
select count(*)::integer as removed
from removed

-- name: guard
select holdfast.guard_lease($1::bigint, $2::bigint)::text as guarded
