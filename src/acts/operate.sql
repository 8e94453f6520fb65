-- What an operator does from outside to what instances hold.

-- name: request_release
-- Asks the holders of a key to let go: the instances listen on a channel that is named like the schema.
select pg_notify($1, 'lock-release-requested ' || $2)

-- name: request_drain
-- Asks an instance to drain, within so long ($3, in ms, or null): its row says so, and it is told to look at it. One that
-- hears no notifications reads its row when it renews it.
with requested as (
  update holdfast.instance
  set state = 'drain-requested',
      drain_within_ms = $3::bigint
  where id = $2
    and state = 'open'
  returning id
)
select pg_notify($1, 'drain-requested ' || id)::text as notified
from requested

-- name: reset_limit
-- Takes all permits of an entity ($2) from whoever holds them.
select instance, weight, fence::text as fence
from holdfast.limit_reset($2::bigint, $1)

-- name: refill_rate
-- Forgets what was spent of a rate. Who sleeps until a place that was promised keeps it.
delete from holdfast.rate
where key = $1::bigint
  and full_at > extract(epoch from clock_timestamp()) * 1000000000
returning name

-- name: forget_delivery
-- Lets a key be run again: removes its answer, or what a dead run left. Not a run in flight. Relies on delivery_pkey.
delete from holdfast.delivery
where namespace = $1
  and key = $2
  and case state when 'in-flight' then not holdfast.is_present(session) else true end
returning state

-- name: end_session
-- Ends a session, if it still holds the key: by now its process id may be a stranger's. Waits up to 5 s for its end.
with holder as materialized (
  select pid
  from pg_locks
  where locktype = 'advisory'
    and database = (select oid from pg_database where datname = current_database())
    and objsubid = 1
    and (classid::bigint << 32) | objid::bigint = $2::bigint
    and granted
    and pid = $1::integer
  limit 1
)
select pg_terminate_backend(pid, 5000) as ended
from holder

-- name: expire_lease
-- Takes a name from whoever has it by lease, or ends its hold: free at once. No renewal, release or guarded write of the
-- holder fits any more. The holder is told, and whoever waits. Relies on lease_pkey.
with found as materialized (
  select key, has_waiters
  from holdfast.lease
  where key = $2::bigint
    and expires_at > clock_timestamp()
  for update
),
expired as (
  update holdfast.lease
  set token = '',
      has_waiters = false,
      expires_at = clock_timestamp()
  from found
  where lease.key = found.key
  returning lease.key, found.has_waiters
)
select
  pg_notify($1, 'lease-expired ' || key)::text as holder_notified,
  case when has_waiters then pg_notify($1, 'lease-released ' || key)::text end as waiters_notified
from expired
