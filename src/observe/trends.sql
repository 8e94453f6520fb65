-- Read-only statements that count events over time. Each statement returns one JSON document.

-- name: trends
-- Returns the numbers of done jobs, failed attempts and permanently failed jobs of a namespace ($3, or null for all) in
-- the last $1 hours. Returns them in columns of $2 minutes for a queue ($4, or null for all) and a kind ($5, or null
-- for all), and in total for at most $6 queues and $6 kinds. Workers maintain no counters. Instead, this statement
-- reads the history: ends are appended in the order in which they happen, so a binary search over the pages of a
-- partition finds the start without an index. Then the statement counts the done jobs and the failed attempts on every
-- n-th page, on at most $7 pages. It looks up the queues and the kinds of at most 4,000 done jobs and 2,000 failed
-- attempts on these pages, and scales the done jobs of each column to the column's count. Hashes choose these rows,
-- because every n-th row could always be of the same kind. A row may be slightly out of order, because it can reuse the
-- space of a redriven job. Uses the indexes job_id, waiting_pkey and job_stopped_id.
with recursive span as materialized (
  select now, now - make_interval(secs => $1::float8 * 3600) as from_at from (select clock_timestamp() as now offset 0) as clock
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
-- Uses a separate step size for each of the two tables, because failures are rare.
page_step as materialized (
  select parent, greatest(1, ceil(sum(pages - first) / $7::integer))::integer as step from stretch group by parent
),
counted_page as materialized (
  select stretch.*, step, page
  from stretch
  join page_step using (parent)
  cross join lateral generate_series(stretch.first, stretch.pages - 1, step) as page
),
counted as materialized (
  select floor(extract(epoch from h.ended_at - from_at) / 60 / $2::integer)::integer as place, sum(h.jobs * step) as jobs
  from span
  cross join counted_page
  cross join lateral (
    select job_end.ended_at, cardinality(ids) as jobs
    from holdfast.job_end
    where job_end.ended_at >= counted_page.began_at
      and job_end.ended_at < counted_page.ended_at
      and job_end.tableoid = counted_page.oid
      and ctid >= format('(%s,0)', page)::tid
      and ctid < format('(%s,0)', page + 1)::tid
      and is_done
    -- Without `offset 0`, the planner would scan the whole table for each page.
    offset 0
  ) as h
  where counted_page.parent = 'holdfast.job_end'::regclass
    and h.ended_at <= now
  group by 1
),
row_sample as materialized (
  select *, ceil(count(*) over () / 2000.0)::integer as row_step, row_number() over () as row_number
  from (
    select h.*
    from (
      select *, row_number() over () as page_number, ceil(count(*) over () / 500.0)::integer as sample_step
      from counted_page
      where counted_page.parent = 'holdfast.job_end'::regclass
    ) as sampled_page
    cross join lateral (
      select claimed_at, job_end.ended_at, ids
      from holdfast.job_end
      where job_end.ended_at >= sampled_page.began_at
        and job_end.ended_at < sampled_page.ended_at
        and job_end.tableoid = sampled_page.oid
        and ctid >= format('(%s,0)', page)::tid
        and ctid < format('(%s,0)', page + 1)::tid
        and is_done
      offset 0
    ) as h
    where page_number % sample_step = 0
  ) as every
),
job_sample as materialized (
  select id, claimed_at, ended_at, ceil(count(*) over () / 4000.0)::integer as job_step
  from row_sample
  cross join lateral unnest(ids) as id
  where (hashint8(row_number) & 2147483647) % row_step = 0
),
done as materialized (
  select
    entered.queue, entered.kind, sampled.ended_at,
    case when coalesce(entered.failed, 0) + coalesce(entered.crashes, 0) = 0 then
      (extract(epoch from sampled.claimed_at - coalesce(entered.enqueued_at, entered.entered_at)) * 1000)::float8
    end as waited,
    (extract(epoch from sampled.ended_at - sampled.claimed_at) * 1000)::float8 as took
  from job_sample as sampled
  cross join lateral (
    select * from holdfast.job where job.id = sampled.id order by entry desc limit 1
  ) as entered
  where (hashint8(sampled.id) & 2147483647) % sampled.job_step = 0
),
unfinished as materialized (
  select *, ceil(count(*) over () / 2000.0)::integer as attempt_step
  from (
    select unnest(h.ids) as id, h.claimed_at, h.ended_at, step
    from counted_page
    cross join lateral (
      select claimed_at, job_end.ended_at, ids
      from holdfast.job_end
      where job_end.ended_at >= counted_page.began_at
        and job_end.ended_at < counted_page.ended_at
        and job_end.tableoid = counted_page.oid
        and ctid >= format('(%s,0)', page)::tid
        and ctid < format('(%s,0)', page + 1)::tid
        and not is_done
      offset 0
    ) as h
    where counted_page.parent = 'holdfast.job_end'::regclass
  ) as every
),
-- An attempt without success has failed if the job's list of failures contains it. Other attempts were cancelled, discarded, postponed or returned.
-- The list contains the last 20 failures, so an attempt before a full list counts as failed.
failed as materialized (
  select entered.queue, entered.kind, attempt.id, attempt.ended_at, step * attempt_step as weight, noted.error
  from unfinished as attempt
  cross join lateral (
    select queue, kind, failures from holdfast.job where job.id = attempt.id order by entry desc limit 1
  ) as entered
  left join lateral (
    select failures from holdfast.waiting where waiting.id = attempt.id offset 0
  ) as waits on true
  left join lateral (
    select failures from holdfast.job_stopped where job_stopped.id = attempt.id order by ended_at desc limit 1
  ) as stopped on true
  cross join lateral (
    select coalesce(waits.failures, stopped.failures, entered.failures) as failures offset 0
  ) as latest
  cross join lateral (
    select failure as error
    from jsonb_array_elements(latest.failures) with ordinality as listed (failure, place)
    where (failure ->> 'claimedAt')::timestamptz = attempt.claimed_at
      or (place = 1 and jsonb_array_length(latest.failures) >= 20 and (failure ->> 'claimedAt')::timestamptz > attempt.claimed_at)
    limit 1
  ) as noted
  where (hashint8(attempt.id) & 2147483647) % attempt_step = 0
),
buried as materialized (
  select h.*, step as weight
  from counted_page
  cross join lateral (
    select queue, kind, id, job_stopped.ended_at, error
    from holdfast.job_stopped
    where job_stopped.ended_at >= counted_page.began_at
      and job_stopped.ended_at < counted_page.ended_at
      and job_stopped.tableoid = counted_page.oid
      and ctid >= format('(%s,0)', page)::tid
      and ctid < format('(%s,0)', page + 1)::tid
      and state = 'buried'
    offset 0
  ) as h
  where counted_page.parent = 'holdfast.job_stopped'::regclass
),
placed as materialized (
  select
    ended.*, queue.namespace, coalesce(queue.name, 'key ' || ended.queue_key) as queue,
    floor(extract(epoch from ended.ended_at - from_at) / 60 / $2::integer)::integer as place
  from (
    select
      queue as queue_key, kind, ended_at, 'done' as outcome, 0::bigint as weight, waited, took, null::bigint as id, null::jsonb as error
    from done
    union all
    select queue, kind, ended_at, 'attempt', weight, null, null, id, error from failed
    union all
    select queue, kind, ended_at, 'buried', weight, null, null, id, error::jsonb from buried
  ) as ended
  cross join span
  left join holdfast.queue on queue.key = ended.queue_key
  where ended.ended_at >= from_at
    and ended.ended_at <= now
),
scale as materialized (
  select place, counted.jobs::float8 / sampled.jobs as jobs
  from counted
  join (select place, count(*) as jobs from placed where outcome = 'done' group by place) as sampled using (place)
),
ended as materialized (
  select placed.*, case outcome when 'done' then scale.jobs else placed.weight end as jobs
  from placed
  left join scale using (place)
  where $3::text is null
    or namespace = $3
),
kind_total as materialized (
  select *
  from (
    select
      namespace, kind,
      array_agg(distinct queue) as queues,
      round(coalesce(sum(jobs) filter (where outcome = 'done'), 0)) as done,
      coalesce(sum(jobs) filter (where outcome = 'attempt'), 0) as failed_attempts,
      coalesce(sum(jobs) filter (where outcome = 'buried'), 0) as failed,
      percentile_cont(array[0.5, 0.95, 0.99]) within group (order by waited) filter (where waited is not null) as waited,
      percentile_cont(array[0.5, 0.95, 0.99]) within group (order by took) filter (where took is not null) as took
    from ended
    where $4::text is null
      or queue = $4
    group by namespace, kind
  ) as by_kind
  order by failed desc, failed_attempts desc, done desc, kind
  limit $6::integer
),
queue_total as materialized (
  select *
  from (
    select
      namespace, queue,
      round(coalesce(sum(jobs) filter (where outcome = 'done'), 0)) as done,
      coalesce(sum(jobs) filter (where outcome = 'attempt'), 0) as failed_attempts,
      coalesce(sum(jobs) filter (where outcome = 'buried'), 0) as failed,
      percentile_cont(array[0.5, 0.95, 0.99]) within group (order by waited) filter (where waited is not null) as waited,
      percentile_cont(array[0.5, 0.95, 0.99]) within group (order by took) filter (where took is not null) as took
    from ended
    where $5::text is null
      or kind = $5
    group by namespace, queue
  ) as by_queue
  order by done + failed_attempts desc, queue
  limit $6::integer
),
latest as materialized (
  select distinct on (namespace, kind) namespace, kind, id, ended_at, error
  from ended
  where outcome <> 'done'
    and ($4::text is null or queue = $4)
  order by namespace, kind, ended_at desc, outcome
)
select json_build_object(
  'fromMs', (select extract(epoch from from_at) * 1000 from span),
  'nowMs', (select extract(epoch from now) * 1000 from span),
  'isEstimated', coalesce((select bool_or(step > 1) from page_step) or (select bool_or(attempt_step > 1) from unfinished), false),
  'oneOf', coalesce(
    (select greatest(1, round((select sum(jobs) from counted) / nullif(count(*), 0))) from placed where outcome = 'done'), 1
  ),
  'points', (
    select json_agg(json_build_array(place, done, failed_attempts, failed, waited, took) order by place)
    from (
      select
        place,
        round(coalesce(sum(jobs) filter (where outcome = 'done'), 0)) as done,
        coalesce(sum(jobs) filter (where outcome = 'attempt'), 0) as failed_attempts,
        coalesce(sum(jobs) filter (where outcome = 'buried'), 0) as failed,
        percentile_cont(array[0.5, 0.95, 0.99]) within group (order by waited) filter (where waited is not null) as waited,
        percentile_cont(array[0.5, 0.95, 0.99]) within group (order by took) filter (where took is not null) as took
      from ended
      where ($4::text is null or queue = $4)
        and ($5::text is null or kind = $5)
      group by place
    ) as columned
  ),
  'kinds', (
    select json_agg(
      json_build_object(
        'namespace', namespace, 'kind', kind, 'queues', queues, 'done', done, 'failedAttempts', failed_attempts, 'failed', failed,
        'waited', waited, 'took', took,
        'lastError', case when latest.id is not null then json_build_object(
          'job', latest.id, 'at', extract(epoch from latest.ended_at) * 1000,
          'name', left(latest.error ->> 'name', 200), 'message', left(latest.error ->> 'message', 1000)
        ) end
      )
      order by failed desc, failed_attempts desc, done desc, kind
    )
    from kind_total
    left join latest using (namespace, kind)
  ),
  'queues', (
    select json_agg(
      json_build_object(
        'namespace', namespace, 'queue', queue, 'done', done, 'failedAttempts', failed_attempts, 'failed', failed,
        'waited', waited, 'took', took
      )
      order by done + failed_attempts desc, queue
    )
    from queue_total
  )
) as answer

-- name: activity
-- For each of the last $2 minutes in a namespace ($1, or null for all), returns the number of instances at the end of
-- the minute, and the average numbers of held names and of waiting calls. Instances record samples within the next
-- minute, so the last minute is incomplete. Uses the indexes instance_name_gone_at and sample_pkey.
with span as materialized (
  select until_at, until_at - make_interval(mins => $2::integer) as from_at
  from (select date_trunc('minute', clock_timestamp(), 'UTC') as until_at offset 0) as clock
),
known as materialized (
  select opened_at, gone_at
  from holdfast.instance_name
  where (gone_at is null or gone_at > (select from_at from span))
    and ($1::text is null or namespace = $1)
),
used as materialized (
  select (extract(epoch from hour - from_at) / 60)::integer + minute::integer as number, sum(least(600, h.held)) as held, sum(h.waited) as waited
  from span
  join holdfast.sample on hour > from_at - interval '1 hour'
  left join holdfast.name using (key)
  cross join lateral unnest(sample.held, sample.waited) with ordinality as h (held, waited, minute)
  where $1::text is null
    or namespace = $1
  group by 1
)
select json_build_object(
  'fromMs', (select extract(epoch from from_at) * 1000 from span),
  'minutes', (
    select json_agg(
      json_build_array(
        (select count(*) from known where opened_at <= minute_end and (gone_at is null or gone_at > minute_end)),
        round(coalesce(held, 0) / 600.0, 1),
        round(coalesce(waited, 0) / 600.0, 1)
      )
      order by number
    )
    from span
    cross join generate_series(1, $2::integer) as number
    cross join lateral (select from_at + make_interval(mins => number) as minute_end offset 0) as ended
    left join used using (number)
  )
) as answer
