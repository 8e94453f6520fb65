-- Leases: every statement stands alone and needs no state of a session, so any pooler may stand between.

-- name: acquire
-- Grants those of the names ($1, a token and a life for each) that are free. Whoever decides about a name has the
-- transaction lock on its key meanwhile: a session that holds it as a lock excludes us, and the fence is drawn in the
-- order of the grants. Answers, for every name, with the fence if it was granted, else in how many ms it expires.
-- Not waited for: a name about which somebody else decides at this moment counts as taken. Relies on lease_pkey.
with settled as materialized (
  select
    holdfast.is_settled() as yes,
    -- A crash must not forget a lease. Where the role does not flush its commits, this one is flushed.
    case when current_setting('synchronous_commit') = 'off' then set_config('synchronous_commit', 'on', true) end as flush
),
asked as materialized (
  select settled.yes, key, token, ttl_ms, hold_ms, place
  from settled, unnest($1::bigint[], $2::text[], $3::integer[], $4::bigint[]) with ordinality as a (key, token, ttl_ms, hold_ms, place)
  order by key
),
decided as materialized (
  select *, case when yes then pg_try_advisory_xact_lock(key) end as by_us
  from asked
),
granted as (
  insert into holdfast.lease as held (key, token, instance, fence, ttl_ms, hold_ms, granted_at, expires_at)
  select
    key, token, $5, nextval('holdfast.fence'), ttl_ms, hold_ms, clock_timestamp(),
    clock_timestamp() + make_interval(secs => ttl_ms / 1000.0)
  from decided
  where by_us
  on conflict (key) do update
  set token = excluded.token,
      instance = excluded.instance,
      -- The same token once more, in time: the same unbroken holding, of which nothing is taken back.
      fence = case when held.expires_at > clock_timestamp() then held.fence else excluded.fence end,
      granted_at = case when held.expires_at > clock_timestamp() then held.granted_at else excluded.granted_at end,
      hold_ms = case when held.expires_at > clock_timestamp() then greatest(held.hold_ms, excluded.hold_ms) else excluded.hold_ms end,
      ttl_ms = excluded.ttl_ms,
      expires_at = greatest(held.expires_at, excluded.expires_at),
      wanted = held.wanted and held.expires_at > clock_timestamp()
  where held.expires_at <= clock_timestamp()
    or held.token = excluded.token
  returning key, fence
)
select
  asked.yes as settled,
  granted.fence,
  case when granted.fence is null then extract(epoch from lease.expires_at - clock_timestamp()) * 1000 end::float8 as free_in_ms,
  lease.wanted
from asked
left join granted using (key)
left join holdfast.lease using (key)
order by asked.place

-- name: want
-- Somebody waits for these names, and is to be told when they are released. In key order, like every statement that
-- locks several rows. Relies on lease_pkey.
with rows as materialized (
  select key
  from holdfast.lease
  where key = any($1::bigint[])
    and not wanted
    and expires_at > clock_timestamp()
  order by key
  for update
)
update holdfast.lease
set wanted = true
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
-- Gives leases back, and answers with the keys and tokens of those that were still their holders'. The name stays taken, by nobody,
-- until its hold is over. Who waits is told, unless there is still a hold. With a fence ($3): only that grant, for the same
-- token may have been granted anew since. Without one, by the token alone: whoever else relies on it is told.
with rows as materialized (
  select
    lease.key,
    lease.token,
    lease.wanted,
    lease.granted_at + make_interval(secs => lease.hold_ms / 1000.0) as held_until,
    asked.fence is null as by_token
  from unnest($1::bigint[], $2::text[], $3::bigint[]) as asked (key, token, fence)
  join holdfast.lease
    on lease.key = asked.key
    and lease.token = asked.token
    and lease.fence = coalesce(asked.fence, lease.fence)
  order by lease.key
  for update of lease
),
released as (
  update holdfast.lease
  set token = '',
      wanted = false,
      expires_at = greatest(held_until, clock_timestamp())
  from rows
  where lease.key = rows.key
  returning lease.key, rows.token, rows.by_token, rows.wanted and held_until <= clock_timestamp() as tell
)
select
  key,
  token,
  case when tell then pg_notify($4, 'lease ' || key)::text end as waiters_told,
  case when by_token then pg_notify($4, 'expire ' || key)::text end as holder_told
from released

-- name: sweep
-- Removes names that have been free for an hour, a bounded number at a time. Relies on lease_expires_at.
delete from holdfast.lease
where key in (
  select key
  from holdfast.lease
  where expires_at < now() - interval '1 hour'
  order by expires_at
  limit 1000
  for update skip locked
)

-- name: guard
select holdfast.guard_lease($1::bigint, $2::bigint)
