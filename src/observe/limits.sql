-- Read-only statements about limits and rates.

-- name: limits
-- Returns at most $4 limits and rates in a namespace ($1, or null for all), with a name prefix ($2, or null) and in the given states ($3).
-- Limits that calls are waiting for come first, then the fullest limits, then the rate limits that recover last. Scans the first $5 rows
-- of each table, because no index covers names or states. Does not count permits of dead instances.
with limit_state as materialized (
  select key, namespace, name
  from (select * from holdfast.limit_state limit $5::integer) as looked
  where ($1::text is null or namespace = $1)
    and ($2::text is null or starts_with(name, $2))
    and (in_use > 0 or waiting > 0 or 'free' = any($3::text[]))
),
permits as materialized (
  select limit_state.key, permit.session, permit.weight, permit.max, permit.fence, permit.since
  from limit_state
  cross join lateral (
    select *
    from holdfast.permit
    where permit.key = limit_state.key
      and permit.weight > 0
    -- `offset 0` makes the planner read each limit by its key.
    offset 0
  ) as permit
),
present as materialized (
  select session
  from (select distinct session from permits) as sessions
  where holdfast.is_present(session)
),
counted as (
  select
    limit_state.key,
    limit_state.namespace,
    limit_state.name,
    coalesce(sum(weight) filter (where fence is not null), 0)::float8 as in_use,
    -- Each call passes its own maximum. The largest maximum is the effective limit.
    max(max) as max,
    count(*) filter (where fence is not null)::integer as holders,
    count(*) filter (where session is not null and fence is null)::integer as waiting,
    min(since) as since
  from limit_state
  left join (select * from permits join present using (session)) as permits using (key)
  group by limit_state.key, limit_state.namespace, limit_state.name
),
of_permits as (
  select
    key, namespace, name, 'permits' as kind,
    case when in_use = 0 and waiting = 0 then 'free' when waiting > 0 or in_use >= max then 'full' else 'used' end as state,
    in_use, max, holders, waiting, since, null::bigint as full_at
  from counted
),
of_rates as (
  select
    key, namespace, name, 'rate' as kind,
    case when full_at > extract(epoch from clock_timestamp()) * 1000000000 then 'spent' else 'refilled' end as state,
    null::float8, null::integer, null::integer, null::integer, null::timestamptz, full_at
  from (select * from holdfast.rate limit $5::integer) as looked
  where ($1::text is null or namespace = $1)
    and ($2::text is null or starts_with(name, $2))
)
select
  key::text as key,
  namespace,
  name,
  kind,
  state,
  in_use as "inUse",
  max,
  holders,
  waiting,
  (extract(epoch from since) * 1000)::float8 as since,
  greatest(0, extract(epoch from clock_timestamp() - since) * 1000)::float8 as "forMs",
  full_at::float8 / 1000000 as "refilledAt",
  case
    when full_at is not null then greatest(0, full_at::float8 / 1000000 - extract(epoch from clock_timestamp()) * 1000)
  end::float8 as "refilledInMs"
from (select * from of_permits union all select * from of_rates) as listed
where state = any($3::text[])
order by waiting desc nulls last, in_use / max desc nulls last, full_at desc nulls last, namespace, name, kind
limit $4::integer

-- name: has_more_limits
-- Returns whether a table has more rows than the `limits` statement scans ($1).
select (select count(*) from (select from holdfast.limit_state limit $1::integer + 1) as rows) > $1::integer
  or (select count(*) from (select from holdfast.rate limit $1::integer + 1) as rows) > $1::integer as more

-- name: permits
-- Returns at most $2 held permits of a limit ($1), at most $2 waiting calls in queue order, and the total number of each. Uses the index
-- permit_pkey.
with permits as materialized (
  select *
  from holdfast.permit
  where key = $1::bigint
    and weight > 0
),
present as materialized (
  select session
  from (select distinct session from permits) as sessions
  where holdfast.is_present(session)
),
living as (
  select
    permits.*,
    row_number() over (partition by fence is null order by fence, wait_order) as place,
    sum(weight) filter (where fence is not null) over () as in_use,
    count(*) filter (where fence is not null) over () as holders,
    count(*) filter (where fence is null) over () as waiting
  from permits
  join present using (session)
)
select
  living.instance,
  instance.name as "instanceName",
  instance.host,
  instance.os_pid as "osPid",
  weight,
  max,
  fence::float8 as fence,
  (extract(epoch from since) * 1000)::float8 as since,
  greatest(0, extract(epoch from clock_timestamp() - since) * 1000)::float8 as "forMs",
  coalesce(in_use, 0)::float8 as in_use,
  holders::integer as holders,
  waiting::integer as waiting
from living
left join holdfast.instance_name as instance on instance.id = living.instance
where place <= $2::integer
order by fence is null, place

-- name: rate
-- Returns the time when the full burst of the rate limit $1 will be available again. Uses the index rate_pkey.
select
  full_at::float8 / 1000000 as "refilledAt",
  greatest(0, full_at::float8 / 1000000 - extract(epoch from clock_timestamp()) * 1000)::float8 as "refilledInMs"
from holdfast.rate
where key = $1::bigint
  and full_at > extract(epoch from clock_timestamp()) * 1000000000
