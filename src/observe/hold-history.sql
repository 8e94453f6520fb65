-- Read-only statements about name samples, terms and job latencies.

-- name: timeline
-- Returns how long names were held and waited for in the last $3 hours, in columns of $5 minutes. Returns at most $4 names in a namespace
-- ($1, or null for all) whose label contains a text ($2, or null), the longest waits first. Omits empty columns. Relies on sample_pkey.
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
    -- The number of minutes from the first column to the hour. With `offset 0`, PostgreSQL computes this number once per hour instead of
    -- once per minute.
    cross join lateral (select (extract(epoch from sample.hour - from_at) / 60)::integer as first offset 0) as hourly
    cross join unnest(sample.held, sample.waited) with ordinality as minutes (held, waited, minute)
    where (minutes.held > 0 or minutes.waited > 0)
      and first + minute > 0
    group by place
  ) as columned
) as merged
order by chosen.waited desc, chosen.held desc, chosen.label, chosen.key

-- name: terms
-- Returns the latest $2 terms of a key ($1). If a term has no recorded end, term_end computes its end. Relies on term_pkey.
select
  term.fence::float8 as fence,
  term.kind,
  term.mode,
  term.instance,
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

-- name: latencies
-- Returns the wait times and run times of the jobs that ended in the last $1 hours, in columns of $2 minutes. Returns at most $5 queues in
-- a namespace ($3, or null) with a name ($4, or null), the queues with the most ended jobs first. Jobs are appended to a day's history in
-- the order in which they end, so a binary search over the pages finds the start without an index. Then the statement reads every n-th
-- page, at most $6 pages in total. A row may be slightly out of order, because it can reuse the space of a redriven job.
with recursive span as materialized (
  select clock_timestamp() as now, clock_timestamp() - make_interval(secs => $1::float8 * 3600) as from_at
),
day as materialized (
  select
    day as began_at,
    day + interval '1 day' as ended_at,
    pg_relation_size(coalesce(
      to_regclass(format('%I.%I', holdfast.notification_channel(), 'job_history_' || to_char(day at time zone 'UTC', 'YYYYMMDD'))),
      'holdfast.job_history_default'::regclass
    )) / current_setting('block_size')::integer as pages
  from span
  cross join generate_series(date_trunc('day', from_at, 'UTC'), now, '1 day') as day
),
-- Only the first day can begin before the requested time, so only the first day needs a binary search.
halving as (
  select began_at, 0::bigint as low, pages as high
  from day
  where began_at = (select min(began_at) from day)
  union all
  select
    began_at,
    case when is_before then middle + 1 else low end,
    case when is_before then high else middle end
  from (
    select halving.*, (low + high) / 2 as middle
    from halving
    where low < high
  ) as half
  cross join lateral (
    select coalesce(max(ended_at) < (select from_at from span), false) as is_before
    from holdfast.job_history
    where ended_at >= half.began_at
      and ended_at < half.began_at + interval '1 day'
      and ctid >= format('(%s,0)', middle)::tid
      and ctid < format('(%s,0)', middle + 1)::tid
  ) as looked
),
stretch as materialized (
  select day.began_at, day.ended_at, coalesce(first.page, 0) as first, pages - coalesce(first.page, 0) as pages
  from day
  left join (select began_at, max(low) as page from halving group by began_at) as first using (began_at)
),
step as materialized (
  select greatest(1, ceil(sum(pages) / $6::integer))::integer as step from stretch
),
looked as materialized (
  select h.queue, h.state, h.failed, h.crashes, h.enqueued_at, h.claimed_at, h.ended_at
  from stretch
  cross join step
  cross join lateral generate_series(stretch.first, stretch.first + stretch.pages - 1, step) as page
  cross join lateral (
    select *
    from holdfast.job_history
    where job_history.ended_at >= stretch.began_at
      and job_history.ended_at < stretch.ended_at
      and ctid >= format('(%s,0)', page)::tid
      and ctid < format('(%s,0)', page + 1)::tid
    -- Without `offset 0`, the planner would scan the whole table for each page.
    offset 0
  ) as h
  where h.ended_at >= (select from_at from span)
),
chosen as materialized (
  select looked.queue, queue.namespace, queue.name, count(*) as jobs
  from looked
  join holdfast.queue on queue.key = looked.queue
  where ($3::text is null or queue.namespace = $3)
    and ($4::text is null or queue.name = $4)
  group by looked.queue, queue.namespace, queue.name
  order by jobs desc, name
  limit $5::integer
)
select
  chosen.namespace,
  chosen.name,
  step.step,
  (extract(epoch from from_at) * 1000)::float8 as from_ms,
  (extract(epoch from now) * 1000)::float8 as now_ms,
  points.points
from chosen
cross join step
cross join span
cross join lateral (
  select json_agg(json_build_array(place, jobs, waited, took) order by place) as points
  from (
    select
      floor(extract(epoch from looked.ended_at - from_at) / 60 / $2::integer)::integer as place,
      count(*) as jobs,
      percentile_cont(array[0.5, 0.95, 0.99]) within group (
        order by (extract(epoch from claimed_at - enqueued_at) * 1000)::float8
      ) filter (where failed = 0 and crashes = 0 and claimed_at is not null) as waited,
      percentile_cont(array[0.5, 0.95, 0.99]) within group (
        order by (extract(epoch from looked.ended_at - claimed_at) * 1000)::float8
      ) filter (where state = 'done' and claimed_at is not null) as took
    from looked
    where looked.queue = chosen.queue
    group by 1
  ) as columned
) as points
order by chosen.jobs desc, chosen.name
