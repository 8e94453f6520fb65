-- What people want to know of deliveries. Nothing here writes.

-- name: deliveries
-- Deliveries of a namespace ($1, or null for all) in one of the states ($2), at most so many ($3), among so many ($4) at most:
-- the last that were run, the latest first (where all are kept for the same time, those that expire last); or of the keys of
-- a namespace those that begin so ($5), in their order. Relies on delivery_expires_at and delivery_pkey.
with latest as (
  select namespace, key, state, session, instance, fence, started_at, finished_at, expires_at
  from holdfast.delivery
  where $5::text is null
  order by expires_at desc
  -- A limit that the planner cannot see makes it walk the index.
  limit (select $4::integer)
),
-- Keys that begin alike stand together, at the beginning of what is read.
alike as (
  select namespace, key, state, session, instance, fence, started_at, finished_at, expires_at
  from holdfast.delivery
  where namespace = $1
    and key >= $5
  order by key
  limit (select $4::integer)
),
looked as materialized (
  select * from latest
  union all
  select * from alike where starts_with(key, $5)
),
present as materialized (
  select session
  from (select distinct session from looked where state = 'in-flight' offset 0) as lives
  where holdfast.is_present(session)
)
select
  looked.key,
  looked.namespace,
  shown.state,
  looked.instance,
  instance.host,
  instance.os_pid,
  looked.fence::text as fence,
  (extract(epoch from looked.started_at) * 1000)::float8 as started_ms,
  (extract(epoch from looked.finished_at) * 1000)::float8 as finished_ms,
  (extract(epoch from looked.expires_at) * 1000)::float8 as expires_ms,
  greatest(0, extract(epoch from clock_timestamp() - coalesce(looked.finished_at, looked.started_at)) * 1000)::float8 as for_ms
from looked
cross join lateral (
  select case when looked.state = 'in-flight' and looked.session not in (select session from present) then 'lost' else looked.state end as state
) as shown
left join holdfast.instance on instance.id = looked.instance
where ($1::text is null or looked.namespace = $1)
  and (looked.expires_at > now() or looked.state = 'in-flight')
  and shown.state = any($2::text[])
order by case when $5::text is null then coalesce(looked.finished_at, looked.started_at) end desc, looked.namespace, looked.key
limit $3::integer

-- name: delivery
-- One delivery, with so many bytes ($3) of its answer and of its body at most. Relies on delivery_pkey.
select
  delivery.key,
  delivery.namespace,
  case
    when delivery.state = 'in-flight' and not holdfast.is_present(delivery.session) then 'lost'
    else delivery.state
  end as state,
  delivery.instance,
  instance.host,
  instance.os_pid,
  fence::text as fence,
  (extract(epoch from started_at) * 1000)::float8 as started_ms,
  (extract(epoch from finished_at) * 1000)::float8 as finished_ms,
  (extract(epoch from delivery.expires_at) * 1000)::float8 as expires_ms,
  greatest(0, extract(epoch from clock_timestamp() - coalesce(finished_at, started_at)) * 1000)::float8 as for_ms,
  fingerprint,
  octet_length(value::text) as value_bytes,
  case when octet_length(value::text) <= $3::integer then value::text end as value,
  octet_length(body) as body_bytes,
  encode(substring(body from 1 for $3::integer), 'base64') as body
from holdfast.delivery
left join holdfast.instance on instance.id = delivery.instance
where delivery.namespace = $1
  and delivery.key = $2
  and (delivery.expires_at > clock_timestamp() or delivery.state = 'in-flight')
