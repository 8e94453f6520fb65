-- name: read_done
-- Returns the time of the read, and the resources that are done for a call that began at $6 (in seconds since 1970; null means now). In a
-- named round, every resource that has a row is done. In an unnamed round, a resource is done if its work began less than $5 ms before the
-- call, or ended after the call began. Uses the index share_done_pkey.
with clock as materialized (
  select clock_timestamp() as now
),
call as materialized (
  select coalesce(to_timestamp($6::float8), now) as started_at
  from clock
)
select
  extract(epoch from clock.now)::float8 as now,
  array(
    select resource
    from holdfast.share_done, call
    where namespace = $1
      and share = $2
      and round = $3
      and resource = any($4::text[])
      and (
        $5::float8 is null
        or share_done.started_at > call.started_at - make_interval(secs => $5::float8 / 1000)
        or share_done.done_at > call.started_at
      )
  ) as done
from clock

-- name: record_done
-- Records each processed resource if its holder's session is still present and no later holder has recorded the resource. Returns the recorded
-- resources' fences. The commit is flushed, so that a crash does not cause the work to be repeated. The rows are sorted, so that two instances cannot
-- deadlock. Uses the index share_done_pkey.
with flushed as materialized (
  select case when current_setting('synchronous_commit') = 'off' then set_config('synchronous_commit', 'on', true) end
),
given as materialized (
  select distinct on (share, round, resource) share, round, resource, session, fence, started_at
  from flushed, unnest($3::text[], $4::text[], $5::text[], $6::integer[], $7::bigint[], $8::float8[])
    as g (share, round, resource, session, fence, started_at)
  order by share, round, resource, fence desc
),
sessions as materialized (
  select session
  from (select distinct session from given) as distinct_sessions
  where holdfast.is_present(session)
)
insert into holdfast.share_done as known (namespace, share, round, resource, instance, fence, started_at, done_at)
select $1, share, round, resource, $2, fence, to_timestamp(started_at), clock_timestamp()
from given
where session in (select session from sessions)
order by share, round, resource
on conflict (namespace, share, round, resource) do update
set instance = excluded.instance,
    fence = excluded.fence,
    started_at = excluded.started_at,
    done_at = excluded.done_at
where known.fence <= excluded.fence
returning fence::text

-- name: sweep_done
-- Removes a batch of old rows. Uses the index share_done_done_at.
with removed as (
  delete from holdfast.share_done
  where (namespace, share, round, resource) in (
    select namespace, share, round, resource
    from holdfast.share_done
    where done_at < now() - make_interval(secs => $1::float8 / 1000)
    order by done_at
    limit $2::integer
    for update skip locked
  )
  returning 1
)
select count(*)::integer as removed
from removed

-- name: join
-- Adds this instance to shares, removes members that are no longer present, and notifies the other members.
with others as materialized (
  select share, instance, session
  from holdfast.share_member
  where namespace = $1
    and share = any($4::text[])
    and session <> $3::integer
),
gone as materialized (
  select share, instance, session
  from others
  where not holdfast.is_present(session)
),
removed as (
  delete from holdfast.share_member
  where namespace = $1
    and (share, instance, session) in (select share, instance, session from gone where instance <> $2)
),
joined as (
  insert into holdfast.share_member (namespace, share, instance, session)
  select $1, share, $2, $3::integer
  from unnest($4::text[]) as s (share)
  order by share
  on conflict (namespace, share, instance) do update
  set session = excluded.session
)
select pg_notify($5, 'share-members-changed ' || key)
from unnest($6::text[]) as k (key)

-- name: leave
-- Removes this instance from a share, and notifies the other members.
with gone as (
  delete from holdfast.share_member
  where namespace = $1
    and share = $3
    and instance = $2
)
select pg_notify($4, 'share-members-changed ' || $5)

-- name: notify_released
-- Notifies the members of shares that resources have been released, so that waiting members try again.
select pg_notify($1, 'resource-released ' || key)
from unnest($2::text[]) as k (key)

-- name: read_members
-- Returns shares' present members. Checks each session once. Uses the index share_member_pkey.
with members as materialized (
  select share, instance, session
  from holdfast.share_member
  where namespace = $1
    and share = any($2::text[])
),
sessions as materialized (
  select session
  from (select distinct session from members) as distinct_sessions
  where holdfast.is_present(session)
)
select share, array_agg(instance order by instance) as instances
from members
where session in (select session from sessions)
group by share
