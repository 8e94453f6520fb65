-- What an operator does to locks and leases from outside.

-- name: request_release
-- Asks the holders of a key to let go: the instances listen on a channel that is named like the schema.
select pg_notify($1, 'release ' || $2)

-- name: request_drain
-- Asks an instance to drain, within so long ($3, in ms, or null): its row says so, and it is told to look at it. One that
-- hears no notifications reads its row when it renews it.
with asked as (
  update holdfast.instance
  set state = 'asked',
      drain_within_ms = $3::bigint
  where id = $2
    and state = 'open'
  returning id
)
select pg_notify($1, 'drain ' || id)::text as told
from asked

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
  select key, wanted
  from holdfast.lease
  where key = $2::bigint
    and expires_at > clock_timestamp()
  for update
),
expired as (
  update holdfast.lease
  set token = '',
      wanted = false,
      expires_at = clock_timestamp()
  from found
  where lease.key = found.key
  returning lease.key, found.wanted
)
select
  pg_notify($1, 'expire ' || key)::text as holder_told,
  case when wanted then pg_notify($1, 'lease ' || key)::text end as waiters_told
from expired
