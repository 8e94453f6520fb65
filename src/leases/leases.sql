-- Leases: every statement stands alone and needs no state of a session, so any pooler may stand between.

-- name: acquire
-- Grants those of the names ($1, a token, a life and a hold for each) that are free. Answers, for every name, with the fence
-- if it was granted, and whether it was granted now or to the same token before, else in how many ms it expires. A function,
-- because its plans are kept also where no statement of ours is prepared: to plan it anew would cost twice of what it costs
-- to run it.
select grace_over, granted_fence as fence, is_fresh as fresh, free_in_ms, lease_has_waiters as has_waiters
from holdfast.acquire_leases($1::bigint[], $2::text[], $3::integer[], $4::bigint[], $5)

-- name: mark_waited_for
-- Somebody waits for these names, and is to be told when they are released. In key order, like every statement that
-- locks several rows. Relies on lease_pkey.
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
-- Renews many leases at once, and answers with the keys and tokens of those that are still their holders'. Not one whose time is
-- over: even if no other lease was granted since, somebody may have the name as a lock. And no earlier than before: a
-- statement that was overtaken by a later one for longer, or that comes from another who knows the token, must not
-- shorten what somebody relies on. Flushed: what a crash forgot, another could take too early.
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

-- name: release
-- Gives leases back ($1, a token and, unless by the token alone, a fence for each), and answers with the keys and tokens of
-- those that were still their holders'.
select released_key as key, released_token as token
from holdfast.release_leases($1::bigint[], $2::text[], $3::bigint[], $4)

-- name: sweep
-- Removes names that have been free for an hour, a bounded number at a time. Relies on lease_expires_at.
with removed as (
  delete from holdfast.lease
  where key in (
    select key
    from holdfast.lease
    where expires_at < now() - interval '1 hour'
    order by expires_at
    limit $1::integer
    for update skip locked
  )
  returning 1
)
select count(*)::integer as removed
from removed

-- name: guard
select holdfast.guard_lease($1::bigint, $2::bigint)::text as guarded
