-- Read-only statements about queues and jobs. Each statement returns one JSON document.

-- name: queues
-- Returns at most $2 used queues (null for all) in a namespace ($1, or null for all) with a name ($4, or null for all). Returns for each
-- queue: the number of jobs by state (counted up to $3), an estimate of the ready jobs if there are more, and the reasons why the next
-- waiting jobs are waiting. Uses the indexes job_order, job_skipped_queue, waiting_queue and job_stopped_state.
with
-- include: used_queue
-- include: running_job
-- include: ready_stretch
serving as materialized (
  select queue, count(*) as workers
  from holdfast.job_active_workers() as worker
  cross join lateral unnest(worker.queues) as queue
  group by queue
),
known as materialized (
  select *
  from used_queue
  where ($1::text is null or namespace = $1)
    and ($4::text is null or name = $4)
),
requested as materialized (
  select * from known order by name is null, namespace, name, key limit $2::integer
),
running as materialized (
  select queue, count(*) as jobs from running_job group by queue
),
first_ready as materialized (
  select stretch.queue, stretch.priority, stretch.kind, looked.entry, coalesce(looked.enqueued_at, looked.entered_at) as enqueued_at
  from (select ready_stretch.*, 100 as max_rows from ready_stretch where ready_stretch.queue in (select key from requested)) as stretch
  cross join lateral (
    select *
    from (
-- include: stretch_entries
    ) as entered
    limit 1
  ) as looked
),
ready as materialized (
  select key as queue, count(looked.entry) as jobs
  from requested
  cross join lateral (
    select entered.entry
    from (select ready_stretch.*, $3::integer as max_rows from ready_stretch where ready_stretch.queue = key) as stretch
    cross join lateral (
-- include: stretch_entries
    ) as entered
    limit $3::integer
  ) as looked
  group by key
),
-- For each level with many ready jobs, probes 200 numbers between the first ready entry and the last assigned number. The fraction of these
-- numbers that belong to the level is used as an estimate for the whole range.
estimated as materialized (
  select first_ready.queue, sum(span.numbers * probed.hits / 200)::bigint as jobs
  from ready
  join first_ready using (queue)
  cross join lateral (select last_value - first_ready.entry + 1 as numbers from holdfast.job_number) as span
  cross join lateral (
    select count(*) as hits
    from generate_series(0, 199) as probe
    -- `offset 0` makes the planner look up each job by its ID.
    cross join lateral (
      select id, entry, queue, priority
      from holdfast.job
      where job.id = first_ready.entry + floor((probe + probe * 0.618034 % 1) * span.numbers / 200)::bigint
      offset 0
    ) as job
    where job.queue = first_ready.queue
      and job.priority = first_ready.priority
      and job.entry = job.id
  ) as probed
  where ready.jobs >= $3::integer
    and first_ready.kind is null
  group by first_ready.queue
)
select json_build_object(
  'count', (select count(*) from known),
  'rows', (
    select json_agg(q)
    from (
      select
        key::text,
        requested.namespace,
        requested.name,
        extract(epoch from paused_at) * 1000 as "pausedAt",
        extract(epoch from clock_timestamp() - paused_at) * 1000 as "pausedForMs",
        coalesce(workers, 0) as workers,
        coalesce(running.jobs, 0) as running,
        coalesce(ready.jobs, 0) as ready,
        estimated.jobs as estimated,
        (select extract(epoch from min(enqueued_at)) * 1000 from first_ready where first_ready.queue = key) as "oldestAt",
        waits.*,
        ended.*
      from requested
      left join running on running.queue = key
      left join serving on serving.queue = key
      left join ready on ready.queue = key
      left join estimated on estimated.queue = key
      cross join lateral (
        select
          count(*) as waiting,
          count(*) filter (where stage = 'time' and failed + crashes = 0) as scheduled,
          count(*) filter (where stage = 'time' and failed + crashes > 0) as retrying,
          count(*) filter (where stage = 'lane') as parked,
          count(*) filter (where stage = 'jobs') as blocked
        from (
          select stage, failed, crashes
          from holdfast.waiting
          where waiting.queue = key
          order by run_at
          -- The planner does not know this limit's value, so it chooses the index.
          limit (select $3::integer)
        ) as looked
      ) as waits
      cross join lateral (
        select
          count(*) filter (where state = 'buried') as buried,
          count(*) filter (where state = 'cancelled') as cancelled,
          count(*) filter (where state = 'discarded') as discarded
        from unnest(array['buried', 'cancelled', 'discarded']) as wanted
        cross join lateral (
          select state
          from holdfast.job_stopped
          where job_stopped.queue = key
            and job_stopped.state = wanted
          limit (select $3::integer)
        ) as looked
      ) as ended
      order by requested.name is null, requested.namespace, requested.name, key
    ) as q
  )
) as answer

-- name: rates
-- Returns the number of jobs per queue that were enqueued, retried or ended in the last minute. Reads the last $1 pages of finished jobs (see
-- recent_history) and the $2 entries and waiting jobs with the largest IDs. The counted period starts at the latest of these times: one minute ago,
-- the start of the finished jobs that were read, and the oldest entry that was read. Uses the indexes job_id and waiting_pkey.
with
-- include: recent_history
latest as materialized (
  select 'job' as place, *
  from (
    select queue, id, coalesce(enqueued_at, entered_at) as enqueued_at, failures from holdfast.job order by id desc limit $2::integer
  ) as j
  union all
  select 'waiting', * from (select queue, id, enqueued_at, failures from holdfast.waiting order by id desc limit $2::integer) as w
),
since as materialized (
  select
    counted_from.until,
    greatest(
      counted_from.at,
      (
        select max(oldest)
        from (select min(enqueued_at) as oldest from latest group by place having count(*) >= $2::integer) as cut
      )
    ) as at
  from counted_from
),
gone as (
  select queue, 'enqueued' as kind
  from (
    -- A job that has several entries is enqueued once.
    select queue, id from latest where enqueued_at >= (select at from since)
    union
    select queue, id from tail where enqueued_at >= (select at from since)
  ) as enqueued
  union all
  select queue, 'retried'
  from (
    select distinct queue, id
    from latest
    where failures is not null
      and (failures -> -1 ->> 'at')::timestamptz >= (select at from since)
      and id not in (select id from tail)
  ) as retried
  union all
  select queue, state from tail where ended_at >= (select at from since)
)
select json_build_object(
  'overMs', (select extract(epoch from until - at) * 1000 from since),
  'rows', (
    select json_agg(json_build_object('key', queue::text, 'kind', kind, 'jobs', jobs))
    from (select queue, kind, count(*) as jobs from gone group by queue, kind) as counted
  )
) as answer

-- name: search
-- Returns at most $10 jobs that match all filters: namespace ($1), queues ($2), kinds ($3), lanes ($4), IDs ($5; each null for all), states
-- ($6), states that match only after a failed attempt ($7), wait reasons ($8, or null) and values in the
-- input or the meta ($9: the column, a path and a text).
-- Running jobs come first, then ready jobs in claim order, waiting jobs by due time, and finished jobs from newest to oldest. Without an
-- index, the search scans at most $11 rows of each state and $12 done jobs. If isCut is true, the scan stopped early. The limits are
-- subqueries, so that the planner chooses the index. Uses the indexes job_order, job_id, job_skipped_queue, waiting_queue, waiting_pkey,
-- job_stopped_state and job_end_bucket.
with
-- include: used_queue
-- include: running_job
-- include: ready_stretch
requested as materialized (
  select key
  from used_queue
  where ($1::text is null or namespace = $1)
    and ($2::text[] is null or name = any($2))
),
-- A search by ID does not scan queues.
walked as materialized (
  select key, greatest($10::integer + 1, $11::integer / count(*) over ()) as max_rows from requested where $5::text is null
),
wanted_value as materialized (
  select pair ->> 'source' as source, array(select json_array_elements_text(pair -> 'path')) as path, pair ->> 'value' as value
  from json_array_elements($9::text::json) as pair
),
-- Each part repeats the filters, so that the part stops scanning when it has enough rows. In the last row of a part, is_cut is true if the
-- scan reached its limit.
by_id as (
  select
    case f.state when 'running' then 1 when 'ready' then 2 when 'waiting' then 3 else 4 end as part,
    case when f.state in ('running', 'ready', 'waiting') then f.id else -f.id end as place, f.id, f.queue, f.state, f.kind, f.priority,
    f.enqueued_at, f.run_at, f.claimed_at, f.ended_at, f.session, f.fence, f.failed, f.crashes, f.error, f.failures, f.links,
    f.meta, waiting.stage, true as matches, false as is_cut
  from holdfast.job_find($5::text::bigint[]) as f
  left join holdfast.waiting on waiting.id = f.id and f.state = 'waiting'
),
running as (
  select
    1, extract(epoch from running_job.claimed_at), job.id, job.queue, 'running', kind, priority, coalesce(enqueued_at, entered_at),
    null::timestamptz, running_job.claimed_at, null::timestamptz, running_job.session, running_job.fence, coalesce(failed, 0),
    coalesce(crashes, 0::smallint), null::json, failures, links, meta, null, true, false
  from (
    select *
    from running_job
    where 'running' = any($6::text[])
      and queue in (select key from walked)
    order by claimed_at, id
    -- Without further filters, the first jobs are enough.
    limit case when $11::integer = 0 then $10::integer + 1 end
  ) as running_job
  cross join lateral (
    select * from holdfast.job where job.id = running_job.id order by entry desc limit 1
  ) as job
  where ($3::text[] is null or kind = any($3))
    and ($4::text[] is null or links -> 'lane' ->> 'name' = any($4))
    and ('running' <> all($7::text[]) or coalesce(failed, 0) + coalesce(crashes, 0) > 0)
    and not exists (
-- include: missing_value
    )
),
ready as (
  select
    2, row_number() over (order by not matches, found.priority desc, era, xid, entry), found.id, found.queue, 'ready', found.kind,
    found.priority,
    coalesce(enqueued_at, entered_at), null::timestamptz, null::timestamptz, null::timestamptz, null::integer, null::bigint,
    coalesce(failed, 0), coalesce(crashes, 0::smallint), null::json, failures, links, meta, null, matches, is_cut
  from (select ready_stretch.*, walked.max_rows from walked join ready_stretch on ready_stretch.queue = walked.key) as stretch
  cross join lateral (
    select *
    from (
      select
        *,
        ($3::text[] is null or kind = any($3))
          and ($4::text[] is null or links -> 'lane' ->> 'name' = any($4))
          and ('ready' <> all($7::text[]) or coalesce(failed, 0) + coalesce(crashes, 0) > 0)
          and not exists (
-- include: missing_value
          ) as matches,
        row_number() over () = stretch.max_rows as is_cut
      from (
-- include: stretch_entries
      ) as looked
    ) as numbered
    where matches
      or is_cut
    limit $10::integer + 1
  ) as found
  where 'ready' = any($6::text[])
),
waiting as (
  select
    3, row_number() over (order by not matches, run_at, id), id, queue, 'waiting', kind, priority, enqueued_at, run_at,
    null::timestamptz, null::timestamptz, null::integer, null::bigint, failed, crashes, null::json, failures, links, meta, stage, matches,
    is_cut
  from walked
  cross join lateral (
    select *
    from (
      select
        *,
        ($3::text[] is null or kind = any($3))
          and ($4::text[] is null or links -> 'lane' ->> 'name' = any($4))
          and ('waiting' <> all($7::text[]) or failed + crashes > 0)
          and (
            $8::text[] is null
            or case when stage <> 'time' then stage when failed + crashes > 0 then 'attempt' else 'time' end = any($8)
          )
          and not exists (
-- include: missing_value
          ) as matches,
        row_number() over () = walked.max_rows as is_cut
      from (
        select *
        from holdfast.waiting
        where waiting.queue = key
        order by run_at
        limit (select walked.max_rows)
      ) as looked
    ) as numbered
    where matches
      or is_cut
    limit $10::integer + 1
  ) as found
  where 'waiting' = any($6::text[])
),
stopped as (
  select
    4, -id, id, queue, state, kind, priority, enqueued_at, null::timestamptz, claimed_at, ended_at, session, fence, failed, crashes,
    error, failures, links, meta, null, matches, is_cut
  from walked
  cross join unnest(array['buried', 'cancelled', 'discarded']) as wanted
  cross join lateral (
    select *
    from (
      select
        *,
        ($3::text[] is null or kind = any($3))
          and ($4::text[] is null or links -> 'lane' ->> 'name' = any($4))
          and (wanted <> all($7::text[]) or failed + crashes > 0)
          and not exists (
-- include: missing_value
          ) as matches,
        row_number() over () = walked.max_rows as is_cut
      from (
        select *
        from holdfast.job_stopped
        where job_stopped.queue = key
          and job_stopped.state = wanted
        order by id desc
        limit (select walked.max_rows)
      ) as looked
    ) as numbered
    where matches
      or is_cut
    limit $10::integer + 1
  ) as found
  where wanted = any($6::text[])
),
-- Reads the buckets of job_end from the largest IDs down. PostgreSQL computes the steps of a recursive query only as they are needed, so the
-- scan stops when it has found enough jobs.
done as (
  select
    4, -id, id, queue, 'done', kind, priority, enqueued_at, null::timestamptz, claimed_at, ended_at, session, fence, failed, crashes,
    null::json, failures, links, meta, null, matches, is_cut
  from (
    select
      *,
      queue in (select key from walked)
        and ($3::text[] is null or kind = any($3))
        and ($4::text[] is null or links -> 'lane' ->> 'name' = any($4))
        and ('done' <> all($7::text[]) or failed + crashes > 0)
        and not exists (
-- include: missing_value
        ) as matches,
      row_number() over () = $12::integer as is_cut
    from (
      select ended.*, entered.*
      from (
        with recursive step as (
          (select bucket from holdfast.job_end where 'done' = any($6::text[]) order by bucket desc limit 1)
          union all
          select (select max(bucket) from holdfast.job_end where job_end.bucket < step.bucket) from step where bucket is not null
        )
        select bucket from step where bucket is not null
      ) as step
      cross join lateral (
        select ids.id, job_end.fence, job_end.session, job_end.claimed_at, job_end.ended_at
        from holdfast.job_end
        cross join lateral unnest(job_end.ids) as ids (id)
        where job_end.bucket = step.bucket
          and is_done
        order by ids.id desc
      ) as ended
      cross join lateral (
        select
          queue, kind, priority, payload, coalesce(enqueued_at, entered_at) as enqueued_at, coalesce(failed, 0) as failed,
          coalesce(crashes, 0) as crashes, failures, links, meta
        from holdfast.job
        where job.id = ended.id
        order by entry desc
        limit 1
      ) as entered
      where exists (select from walked)
      limit (select $12::integer)
    ) as looked
  ) as numbered
  where matches
    or is_cut
  limit $10::integer + 1
),
listed as materialized (
  select * from by_id
  union all
  select * from running
  union all
  select * from ready
  union all
  select * from waiting
  union all
  select * from stopped
  union all
  select * from done
),
shown as materialized (
  select * from listed where matches order by part, place limit $10::integer + 1
),
unserved as materialized (
  select found.*
  from (
    select array_agg(queue) as queues, array_agg(kind) as kinds
    from (select distinct queue, kind from shown where state = 'ready') as requested
  ) as pairs
  cross join lateral holdfast.job_unserved(pairs.queues, pairs.kinds) as found
),
needed as materialized (
  select needs.job, json_agg(json_build_object('id', needs.needs, 'state', needs.state) order by needs.needs) as jobs
  from holdfast.job_unmet_dependencies((select array_agg(id) from shown where stage = 'jobs'), 4) as needs
  group by needs.job
)
select json_build_object(
  'isCut', (select coalesce(bool_or(is_cut), false) from listed),
  'rows', (
    select json_agg(r)
    from (
      select
        shown.id,
        shown.kind,
        shown.queue::text as "queueKey",
        queue.name as queue,
        queue.namespace,
        shown.state,
        queue.paused_at is not null and shown.state = 'ready' as paused,
        case
          when stage = 'time' and failed + crashes > 0 then 'attempt'
          else stage
        end as waits,
        shown.links -> 'lane' ->> 'name' as lane,
        coalesce(shown.meta, '{}') as meta,
        shown.priority,
        shown.failed,
        shown.crashes,
        note.progress,
        by.id as instance,
        by.name as "instanceName",
        by.host,
        by.os_pid as "osPid",
        case when shown.state = 'running' then note.cancelled end as cancelling,
        unserved.unserved,
        case when stage = 'jobs' then coalesce(needed.jobs, '[]') end as needs,
        left(coalesce(shown.error ->> 'name', shown.failures -> -1 ->> 'name'), 200) as "failureName",
        left(coalesce(shown.error ->> 'message', shown.failures -> -1 ->> 'message'), 1000) as failure,
        extract(epoch from shown.enqueued_at) * 1000 as "enqueuedAt",
        extract(epoch from shown.run_at) * 1000 as "runAt",
        extract(epoch from shown.claimed_at) * 1000 as "claimedAt",
        extract(epoch from shown.ended_at) * 1000 as "endedAt",
        extract(epoch from clock_timestamp() - coalesce(shown.ended_at, shown.claimed_at, shown.enqueued_at)) * 1000 as "forMs",
        extract(epoch from shown.run_at - clock_timestamp()) * 1000 as "dueInMs"
      from shown
      left join holdfast.queue on queue.key = shown.queue
      left join unserved
        on shown.state = 'ready' and queue.paused_at is null and unserved.queue = shown.queue and unserved.kind = shown.kind
      left join needed on needed.job = shown.id
      left join lateral (
        select progress, cancelled from holdfast.job_note where job_note.id = shown.id and job_note.fence = shown.fence offset 0
      ) as note on true
      left join lateral (
        select instance_name.*
        from (select holdfast.instance_of_session(shown.session) as id offset 0) as known
        join holdfast.instance_name using (id)
      ) as by on true
      order by part, place
    ) as r
  )
) as answer

-- name: job
-- Returns one job ($1). Omits an input or a result of more than $2 bytes. Returns at most $3 linked jobs: the jobs in the same workflow, the
-- dependencies and the dependants. Uses the indexes job_workflow, waiting_workflow, job_stopped_workflow and dependency_job.
with found as materialized (
  select f.*, waiting.stage
  from holdfast.job_find(array[$1::bigint]) as f
  left join holdfast.waiting on waiting.id = f.id and f.state = 'waiting'
),
-- Jobs can depend on each other even if they belong to no workflow.
near as materialized (
  select *
  from (
    select needs as id from holdfast.dependency where job = $1::bigint
    union
    select job from holdfast.dependency where needs = $1::bigint
    union
    select jsonb_array_elements_text(links -> 'after')::bigint from found where links ? 'after'
    union
    select id
    from (
      select id, links from holdfast.job
      union all
      select id, links from holdfast.waiting
      union all
      select id, links from holdfast.job_stopped
    ) as anywhere
    where links ? 'workflow'
      and (links ->> 'workflow')::bigint = (select (links ->> 'workflow')::bigint from found)
  ) as others
  where id <> $1::bigint
),
linked as (
  select id, kind, state, links
  from holdfast.job_find($1::bigint || array(select id from near order by id limit $3::integer))
)
select json_build_object(
  'job', (
    select row_to_json(j)
    from (
      select
        found.id,
        found.kind,
        found.queue::text as "queueKey",
        queue.name as queue,
        queue.namespace,
        extract(epoch from queue.paused_at) * 1000 as "pausedAt",
        found.state,
        case
          when stage = 'time' and failed + crashes > 0 then 'attempt'
          else stage
        end as waits,
        found.priority,
        found.failed,
        found.crashes,
        found.max_crashes as "maxCrashes",
        found.progress,
        found.fence,
        by.id as instance,
        by.name as "instanceName",
        by.host,
        by.os_pid as "osPid",
        found.cancelled as cancelling,
        found.links -> 'lane' ->> 'name' as lane,
        found.links -> 'unique' ->> 'key' as "uniqueKey",
        found.links ->> 'trace' as traceparent,
        found.links -> 'workflow' as workflow,
        extract(epoch from enqueued_at) * 1000 as "enqueuedAt",
        extract(epoch from run_at) * 1000 as "runAt",
        extract(epoch from claimed_at) * 1000 as "claimedAt",
        extract(epoch from ended_at) * 1000 as "endedAt",
        octet_length(payload::text) as "inputBytes",
        case when octet_length(payload::text) <= $2::integer then payload end as input,
        coalesce(meta, '{}') as meta,
        octet_length(result::text) as "resultBytes",
        case when octet_length(result::text) <= $2::integer then result end as result,
        error,
        array_to_json(log) as log,
        failures
      from found
      left join holdfast.queue on queue.key = found.queue
      left join lateral (
        select instance_name.*
        from (select holdfast.instance_of_session(found.session) as id offset 0) as known
        join holdfast.instance_name using (id)
      ) as by on true
    ) as j
  ),
  'others', (select count(*) from near),
  'linked', (
    select json_agg(
      json_build_object(
        'id', id, 'kind', kind, 'state', state, 'after', coalesce(links -> 'after', '[]'), 'ifFailed', coalesce(links ->> 'ifFailed', 'cancel')
      )
      order by id
    )
    from linked
  )
) as answer
