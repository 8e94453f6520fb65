-- Operator actions on resources that instances hold.

-- name: request_release
-- Asks the instances ($3) that hold a key to release that key. Instances listen on the channel that is named after the
-- schema. $3 is necessary because another instance may acquire the key just after the release, and must not release it.
select pg_notify($1, 'lock-release-requested ' || $2 || ' ' || holder)
from unnest($3::text[]) as holder

-- name: request_drain
-- Asks an instance to drain. $3 is the time in milliseconds allowed for running work to finish, or null for the default. The notification
-- makes the instance read its row. An instance that receives no notifications reads its row at the next renewal.
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
-- Revokes all of a limit's permits ($2).
select revoked.instance, instance_name.name as "instanceName", revoked.weight, revoked.fence::text as fence
from holdfast.limit_reset($2::bigint, $1) as revoked
left join holdfast.instance_name on instance_name.id = revoked.instance

-- name: refill_rate
-- Resets a rate limit. A call that already reserved a start time keeps that time.
delete from holdfast.rate
where key = $1::bigint
  and full_at > extract(epoch from clock_timestamp()) * 1000000000
returning name

-- name: forget_delivery
-- Deletes a delivery so that its key can run again, unless the delivery is still running. Uses the index delivery_pkey.
delete from holdfast.delivery
where namespace = $1
  and key = $2
  and case state when 'in-flight' then not holdfast.is_present(session) else true end
returning state

-- name: end_session
-- Ends a session if that session still holds the key. The check is necessary because the process ID may now belong to a different session.
-- Waits up to 5 seconds for the session to end.
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
-- Expires a lease or a minimum hold. The statement clears the token, so the holder's later renewals, releases and guarded writes fail.
-- Notifies the holder and the waiters. Uses the index lease_pkey.
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
