-- Read-only statements about deliveries.

-- name: deliveries
-- Returns at most $3 deliveries in a namespace ($1, or null for all) and in the given states ($2). Scans the $4 latest
-- deliveries, the latest first. With a key prefix ($5), scans the first $4 keys of each namespace in key order instead.
-- isCut is true if the scan stopped early. $6 is the position after which the scan starts, or null: the expiry in
-- microseconds and the key or, with a prefix, the namespace and the key. Returns only deliveries that started within $7
-- milliseconds, if $7 is not null. The limit is a subquery, so that the planner chooses the index. Uses the indexes
-- delivery_expires_at and delivery_pkey.
with recursive
spaces as (
  (select namespace from holdfast.delivery where $5::text is not null order by namespace limit 1)
  union all
  select (select min(namespace) from holdfast.delivery where delivery.namespace > spaces.namespace)
  from spaces
  where namespace is not null
),
present as materialized (
  select session from holdfast.instance where holdfast.is_present(session)
),
latest as (
  select namespace, key, state, session, instance, fence, started_at, finished_at, expires_at, row_number() over () = $4::integer as is_cut
  from (
    select *
    from holdfast.delivery
    where $5::text is null
      and (
        $6::text[] is null
        or (
          expires_at <= timestamptz 'epoch' + $6[1]::bigint * interval '1 microsecond'
          and (expires_at, key) < (timestamptz 'epoch' + $6[1]::bigint * interval '1 microsecond', $6[2])
        )
      )
    order by expires_at desc, key desc
    limit (select $4::integer)
  ) as looked
),
begun as (
  select namespace, key, state, session, instance, fence, started_at, finished_at, expires_at, place = $4::integer as is_cut
  from (select namespace from spaces where namespace is not null and ($1::text is null or namespace = $1) and namespace >= coalesce($6[1], '') limit 100) as space
  cross join lateral (
    select
      delivery.key, state, session, instance, fence, started_at, finished_at, expires_at,
      row_number() over (order by delivery.key) as place
    from holdfast.delivery
    where delivery.namespace = space.namespace
      and delivery.key >= $5
      and (space.namespace = $6[1] and delivery.key <= $6[2]) is not true
      -- The upper bound is the largest possible key with this prefix.
      and delivery.key <= $5 || chr(1114111)
    order by delivery.key
    limit (select $4::integer)
  ) as looked
),
listed as materialized (
  select *
  from (
    select
      looked.*,
      case when state = 'in-flight' and session not in (select session from present) then 'lost' else state end as shown
    from (select * from latest union all select * from begun) as looked
  ) as seen
  where is_cut
    or (
      ($1::text is null or namespace = $1)
      and (expires_at > now() or state = 'in-flight')
      and shown = any($2::text[])
      and ($7::float8 is null or started_at > now() - $7::float8 * interval '1 ms')
    )
  limit $3::integer + 1
)
select
  delivery.key,
  delivery.namespace,
  delivery.shown as state,
-- include: delivery_columns
  delivery.is_cut as "isCut",
  case
    when $5::text is null then array[(extract(epoch from delivery.expires_at) * 1000000)::bigint::text, delivery.key]
    else array[delivery.namespace, delivery.key]
  end as place,
  ($1::text is null or delivery.namespace = $1)
    and (delivery.expires_at > now() or delivery.state = 'in-flight')
    and delivery.shown = any($2::text[]) as matches
from listed as delivery
left join holdfast.instance_name as instance on instance.id = delivery.instance
order by
  case when $5::text is null then delivery.expires_at end desc,
  case when $5::text is null then delivery.key end desc,
  delivery.namespace,
  delivery.key

-- name: delivery
-- Returns one delivery. Omits a result of more than $3 bytes, and truncates the body to $3 bytes. Uses the index delivery_pkey.
select
  delivery.key,
  delivery.namespace,
  case
    when delivery.state = 'in-flight' and not holdfast.is_present(delivery.session) then 'lost'
    else delivery.state
  end as state,
-- include: delivery_columns
  fingerprint,
  octet_length(value::text) as "valueBytes",
  case when octet_length(value::text) <= $3::integer then value::text end as value,
  octet_length(body) as "bodyBytes",
  encode(substring(body from 1 for $3::integer), 'base64') as body
from holdfast.delivery
left join holdfast.instance_name as instance on instance.id = delivery.instance
where delivery.namespace = $1
  and delivery.key = $2
  and (delivery.expires_at > clock_timestamp() or delivery.state = 'in-flight')
