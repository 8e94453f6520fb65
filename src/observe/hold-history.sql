-- Read-only statements about name samples, terms and job latencies.

-- name: timeline
-- Returns how long names were held and waited for in the last $3 hours, in columns of $5 minutes. Returns at most $4 names in a namespace
-- ($1, or null for all) whose label contains a text ($2, or null), the longest waits first. Omits empty columns. Uses the index
-- sample_pkey.
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

-- name: latencies
-- Returns the wait times and run times of the jobs that ended in the last $1 hours, in columns of $2 minutes. Returns at most $5 queues in a
-- namespace ($3, or null) with a name ($4, or null), the queues with the most finished jobs first. Ends are appended in the order in which they
-- happen, so a binary search over the pages of a partition finds the start without an index. Then the statement reads every n-th page, at most $6
-- pages in total. From these pages, it reads at most 5,000 rows, and from these rows at most 20,000 jobs. A row may be slightly out of order, because
-- it can reuse the space of a redriven job. Uses the index job_id.
with recursive span as materialized (
  select clock_timestamp() as now, clock_timestamp() - make_interval(secs => $1::float8 * 3600) as from_at
),
part as materialized (
  select
    oid, parent, greatest(began_at, from_at) as began_at, coalesce(ended_at, 'infinity') as ended_at,
    pg_relation_size(oid) / current_setting('block_size')::integer as pages,
    -- Only a partition that begins before the requested time needs a binary search.
    coalesce(began_at, '-infinity') < from_at as is_first
  from span
  cross join lateral (
    select
      inhrelid as oid,
      inhparent as parent,
      substring(pg_get_expr(relpartbound, inhrelid) from 'FROM \(''([^'']+)''\)')::timestamptz as began_at,
      substring(pg_get_expr(relpartbound, inhrelid) from 'TO \(''([^'']+)''\)')::timestamptz as ended_at
    from pg_inherits
    join pg_class on pg_class.oid = inhrelid
    where inhparent in ('holdfast.job_end'::regclass, 'holdfast.job_stopped'::regclass)
  ) as partition
  where coalesce(began_at, '-infinity') <= now
    and coalesce(ended_at, 'infinity') > from_at
),
halving as (
  select oid, parent, ended_at, 0::bigint as low, pages as high from part where is_first
  union all
  select
    oid, parent, ended_at,
    case when is_before then middle + 1 else low end,
    case when is_before then high else middle end
  from (
    select halving.*, (low + high) / 2 as middle
    from halving
    where low < high
  ) as half
  cross join lateral (
    select coalesce(max(looked.ended_at) < (select from_at from span), false) as is_before
    from (
      select job_end.ended_at
      from holdfast.job_end
      where half.parent = 'holdfast.job_end'::regclass
        and job_end.ended_at < half.ended_at
        and job_end.tableoid = half.oid
        and ctid >= format('(%s,0)', middle)::tid
        and ctid < format('(%s,0)', middle + 1)::tid
      union all
      select job_stopped.ended_at
      from holdfast.job_stopped
      where half.parent = 'holdfast.job_stopped'::regclass
        and job_stopped.ended_at < half.ended_at
        and job_stopped.tableoid = half.oid
        and ctid >= format('(%s,0)', middle)::tid
        and ctid < format('(%s,0)', middle + 1)::tid
    ) as looked
  ) as looked
),
stretch as materialized (
  select part.*, coalesce(first.page, 0) as first
  from part
  left join (select oid, max(low) as page from halving group by oid) as first using (oid)
),
page_step as materialized (
  select greatest(1, ceil(sum(pages - first) / $6::integer))::integer as step from stretch
),
sampled_page as materialized (
  select stretch.*, page
  from stretch
  cross join page_step
  cross join lateral generate_series(stretch.first, stretch.pages - 1, step) as page
),
row_sample as materialized (
  select *, ceil(count(*) over () / 5000.0)::integer as row_step, row_number() over () as place
  from (
    select h.*
    from sampled_page
    cross join lateral (
      select fence, claimed_at, job_end.ended_at, ids
      from holdfast.job_end
      where job_end.ended_at >= sampled_page.began_at
        and job_end.ended_at < sampled_page.ended_at
        and job_end.tableoid = sampled_page.oid
        and ctid >= format('(%s,0)', page)::tid
        and ctid < format('(%s,0)', page + 1)::tid
        and is_done
      -- Without `offset 0`, the planner would scan the whole table for each page.
      offset 0
    ) as h
    where sampled_page.parent = 'holdfast.job_end'::regclass
  ) as every
),
job_sample as materialized (
  select id, claimed_at, ended_at, row_step, ceil(count(*) over () / 20000.0)::integer as job_step, row_number() over () as place
  from row_sample
  cross join lateral unnest(ids) as id
  where place % row_step = 0
),
step as materialized (
  select page_step.step * coalesce(max(row_step) * max(job_step), 1) as step, coalesce(max(row_step) * max(job_step), 1) as weight
  from page_step
  left join job_sample on true
  group by page_step.step
),
looked as materialized (
  select
    entered.queue, 'done' as state, coalesce(entered.failed, 0) as failed, coalesce(entered.crashes, 0) as crashes,
    coalesce(entered.enqueued_at, entered.entered_at) as enqueued_at, sampled.claimed_at, sampled.ended_at
  from job_sample as sampled
  cross join lateral (
    select * from holdfast.job where job.id = sampled.id order by entry desc limit 1
  ) as entered
  where sampled.place % sampled.job_step = 0
  union all
  select queue, state, failed, crashes, enqueued_at, claimed_at, ended_at
  from (
    select h.*, row_number() over () as place
    from sampled_page
    cross join lateral (
      select *
      from holdfast.job_stopped
      where job_stopped.ended_at >= sampled_page.began_at
        and job_stopped.ended_at < sampled_page.ended_at
        and job_stopped.tableoid = sampled_page.oid
        and ctid >= format('(%s,0)', page)::tid
        and ctid < format('(%s,0)', page + 1)::tid
      offset 0
    ) as h
    where sampled_page.parent = 'holdfast.job_stopped'::regclass
  ) as every
  -- Keeps the same fraction of stopped jobs as of done jobs.
  where place % (select weight from step) = 0
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
