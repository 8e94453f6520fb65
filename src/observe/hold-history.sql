-- Read-only statements about name samples and terms.

-- name: timeline
-- Returns the times for which names were held and waited for in the last $3 hours, in columns of $5 minutes. Returns at
-- most $4 names in a namespace ($1, or null for all) whose label contains a text ($2, or null), the longest waits
-- first. Omits empty columns. Uses the index sample_pkey.
with span as materialized (
  select
    until_at - make_interval(mins => columns * $5::integer) as from_at,
    columns
  from (
    select
      date_trunc('minute', clock_timestamp(), 'UTC') + interval '1 minute' as until_at,
      ceil($3::float8 * 60 / $5::integer)::integer as columns
  ) as requested
),
total as materialized (
  select key, sum(held_total) as held, sum(waited_total) as waited
  from holdfast.sample
  where hour > (select from_at - interval '1 hour' from span)
  group by key
),
chosen as materialized (
  select key, namespace, label, held, waited, count(*) over () as names
  from total
  left join holdfast.name using (key)
  where ($1::text is null or namespace = $1)
    and ($2::text is null or position(lower($2) in lower(coalesce(label, key::text))) > 0)
  order by waited desc, held desc, label, key
  limit $4::integer
)
select
  chosen.key::text as key,
  chosen.namespace,
  chosen.label,
  names::integer as names,
  columns,
  (extract(epoch from from_at) * 1000)::float8 as from_ms,
  (extract(epoch from clock_timestamp()) * 1000)::float8 as now_ms,
  merged.places,
  merged.held,
  merged.waited
from chosen
cross join span
cross join lateral (
  select array_agg(place) as places, array_agg(held) as held, array_agg(waited) as waited
  from (
    select
      (first + minute::integer - 1) / $5::integer as place,
      -- A minute has 600 tenths of a second. The total of overlapping shared holds is limited to this number.
      sum(least(600, minutes.held))::integer as held,
      sum(coalesce(minutes.waited, 0))::integer as waited
    from generate_series(date_trunc('hour', from_at, 'UTC'), clock_timestamp(), '1 hour') as past (at)
    join holdfast.sample on sample.hour = past.at and sample.key = chosen.key
    -- Computes the number of minutes from the first column to the hour. With `offset 0`, PostgreSQL computes this number once per hour
    -- instead of once per minute.
    cross join lateral (select (extract(epoch from sample.hour - from_at) / 60)::integer as first offset 0) as hourly
    cross join unnest(sample.held, sample.waited) with ordinality as minutes (held, waited, minute)
    where (minutes.held > 0 or minutes.waited > 0)
      and first + minute > 0
    group by place
  ) as columned
) as merged
order by chosen.waited desc, chosen.held desc, chosen.label, chosen.key

-- name: terms
-- Returns the latest $2 terms of the key $1. If a term has no recorded end, term_end computes its end. Uses the index term_pkey.
select
  term.fence::float8 as fence,
  term.kind,
  term.mode,
  term.instance,
  term.instance_name as "instanceName",
  term.host,
  term.os_pid as "osPid",
  (extract(epoch from term.began_at) * 1000)::float8 as "beganAt",
  (extract(epoch from coalesce(term.ended_at, end_at)) * 1000)::float8 as "endedAt",
  (extract(epoch from coalesce(term.gone_by, end_by)) * 1000)::float8 as "goneBy",
  coalesce(term.why, reason) as why,
  (extract(epoch from coalesce(term.ended_at, end_at, clock_timestamp()) - term.began_at) * 1000)::float8 as "lastedMs"
from (select * from holdfast.term where key = $1::bigint order by fence desc limit $2::integer) as term
left join lateral (
  select * from holdfast.term_end(term.key, term.fence) where term.ended_at is null
) as looked on true
order by term.fence desc

-- name: key
select holdfast.lock_key($1, $2)::text as key
