-- Read-only statements about queues and jobs. Each statement returns one JSON document.

-- name: queues
-- Returns at most $2 used queues (null for all) in a namespace ($1, or null for all) with a name ($4, or null for all). Returns for each
-- queue: the number of jobs by state (counted up to $3), the planner's estimate of live jobs, and the reasons why the next waiting jobs are
-- waiting. Relies on job_order, waiting_queue and job_history_failed.
with
-- include: used_queue
-- include: running_job
serving as materialized (
  select queue, count(*) as workers
  from holdfast.job_active_workers() as worker
  cross join lateral unnest(worker.queues) as queue
  group by queue
),
estimated as materialized (
  select queue, (share * greatest(0, reltuples))::bigint as jobs
  from pg_stats
  join pg_class on pg_class.oid = 'holdfast.job'::regclass
  cross join lateral unnest(most_common_vals::text::bigint[], most_common_freqs) as common (queue, share)
  where schemaname = holdfast.notification_channel()
    and tablename = 'job'
    and attname = 'queue'
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
        greatest(
          0,
          -- This count includes running jobs, so that the planner can use an index-only scan.
          (
            select count(*)
            from (select from holdfast.job where job.queue = key limit $3::integer + coalesce(running.jobs, 0)) as counted
          ) - coalesce(running.jobs, 0)
        ) as ready,
        estimated.jobs as estimated,
        (
          select extract(epoch from min(enqueued_at)) * 1000
          from generate_series(-5, 5) as level
          cross join lateral (
            select enqueued_at
            from holdfast.job
            where job.queue = key
              and job.priority = level
              and job.session is null
              and job.id not in (select id from running_job)
            order by seq
            limit 1
          ) as first
        ) as "oldestAt",
        waits.*,
        ended.*
      from requested
      left join running on running.queue = key
      left join serving on serving.queue = key
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
          -- The planner does not know the value of this limit, so it chooses the index.
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
          from holdfast.job_history h
          where h.queue = key
            and h.state = wanted
            and h.state <> 'done'
          limit (select $3::integer)
        ) as looked
      ) as ended
      order by requested.name is null, requested.namespace, requested.name, key
    ) as q
  )
) as answer

-- name: rates
-- Returns the number of jobs per queue that were enqueued, retried or ended in the last minute. Reads the last $1 pages of the history and
-- the $2 live jobs with the largest IDs. The counted period starts at the latest of three times: one minute ago, the oldest row that was
-- read, and midnight UTC. Relies on job_pkey and waiting_pkey.
with
-- include: recent_history
live as materialized (
  select 'job' as place, * from (select queue, id, enqueued_at, failures from holdfast.job order by id desc limit $2::integer) as j
  union all
  select 'waiting', * from (select queue, id, enqueued_at, failures from holdfast.waiting order by id desc limit $2::integer) as w
),
since as materialized (
  select
    clock_timestamp() as until,
    greatest(
      clock_timestamp() - interval '1 minute',
      began_at,
      -- If all pages were read, the oldest end time does not limit the period.
      case when pages > $1::integer then (select min(ended_at) from tail) end,
      (
        select max(oldest)
        from (select min(enqueued_at) as oldest from live group by place having count(*) >= $2::integer) as cut
      )
    ) as at
  from today
),
gone as (
  select queue, 'enqueued' as kind from live where enqueued_at >= (select at from since)
  union all
  select queue, 'enqueued' from tail where enqueued_at >= (select at from since)
  union all
  select queue, 'retried' from live
  where failures is not null
    and (failures -> -1 ->> 'at')::timestamptz >= (select at from since)
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
-- ($6), states that match only after a failed attempt ($7), wait reasons ($8, or null) and input values ($9: pairs of a path and a text).
-- Running jobs come first, then ready jobs in claim order, waiting jobs by due time, and ended jobs from newest to oldest. Without an
-- index, the search scans at most $11 rows of each state and $12 rows of the history. If isCut is true, the scan stopped early. The limits
-- are subqueries, so that the planner chooses the index. Relies on job_order, job_pkey, waiting_queue, waiting_pkey, job_history_failed and
-- job_history_id.
with
-- include: used_queue
-- include: running_job
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
wanted_input as materialized (
  select array(select json_array_elements_text(pair -> 'path')) as path, pair ->> 'value' as value
  from json_array_elements($9::text::json) as pair
),
-- Each part repeats the filters, so that the part stops scanning when it has enough rows. In the last row of a part, is_cut is true if the
-- scan reached its limit.
by_id as (
  select
    case when running_job.id is null then 2 else 1 end as part, job.id as place, job.id, job.queue,
    case when running_job.id is null then 'ready' else 'running' end as state, kind, priority, enqueued_at, null::timestamptz as run_at,
    running_job.claimed_at, null::timestamptz as ended_at, running_job.session, failed, crashes, progress, cancelled, null::json as error,
    failures, links, null as stage, true as matches, false as is_cut
  from holdfast.job
  left join running_job using (id)
  where job.id = any($5::text::bigint[])
  union all
  select
    3, id, id, queue, 'waiting', kind, priority, enqueued_at, run_at, null, null, null, failed, crashes, null, null, null,
    failures, links, stage, true, false
  from holdfast.waiting
  where id = any($5::text::bigint[])
  union all
  select
    4, -id, id, queue, state, kind, priority, enqueued_at, null, claimed_at, ended_at, session, failed, crashes, progress,
    null, error, failures, links, null, true, false
  from holdfast.job_history
  where id = any($5::text::bigint[])
),
running as (
  select
    1, extract(epoch from running_job.claimed_at), job.id, job.queue, 'running', kind, priority, enqueued_at, null::timestamptz,
    running_job.claimed_at, null::timestamptz, running_job.session, failed, crashes, progress, cancelled, null::json,
    failures, links, null, true, false
  from running_job
  join holdfast.job using (id)
  where 'running' = any($6::text[])
    and job.queue in (select key from walked)
    and ($3::text[] is null or kind = any($3))
    and ($4::text[] is null or links -> 'lane' ->> 'name' = any($4))
    and ('running' <> all($7::text[]) or failed + crashes > 0)
    and not exists (select from wanted_input where coalesce(payload #>> path, 'null') <> value)
),
ready as (
  select
    2, row_number() over (order by not matches, priority desc, seq), id, queue, 'ready', kind, priority, enqueued_at, null::timestamptz,
    null::timestamptz, null::timestamptz, null::integer, failed, crashes, null::real, null, null::json,
    failures, links, null, matches, is_cut
  from walked
  cross join generate_series(-5, 5) as level
  cross join lateral (
    select *
    from (
      select
        *,
        ($3::text[] is null or kind = any($3))
          and ($4::text[] is null or links -> 'lane' ->> 'name' = any($4))
          and ('ready' <> all($7::text[]) or failed + crashes > 0)
          and not exists (select from wanted_input where coalesce(payload #>> path, 'null') <> value) as matches,
        row_number() over () = walked.max_rows as is_cut
      from (
        select *
        from holdfast.job
        where job.queue = key
          and job.priority = level
          and job.session is null
          and job.id not in (select id from running_job)
        order by seq
        limit (select walked.max_rows)
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
    null::timestamptz, null::timestamptz, null::integer, failed, crashes, null::real, null, null::json,
    failures, links, stage, matches, is_cut
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
          and not exists (select from wanted_input where coalesce(payload #>> path, 'null') <> value) as matches,
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
failed as (
  select
    4, -id, id, queue, state, kind, priority, enqueued_at, null::timestamptz, claimed_at, ended_at, session, failed, crashes,
    progress, null, error, failures, links, null, matches, is_cut
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
          and not exists (select from wanted_input where coalesce(payload #>> path, 'null') <> value) as matches,
        row_number() over () = walked.max_rows as is_cut
      from (
        select *
        from holdfast.job_history h
        where h.queue = key
          and h.state = wanted
          and h.state <> 'done'
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
done as (
  select
    4, -id, id, queue, state, kind, priority, enqueued_at, null::timestamptz, claimed_at, ended_at, session, failed, crashes,
    progress, null, error, failures, links, null, matches, is_cut
  from (
    select
      *,
      state = 'done'
        and queue in (select key from walked)
        and ($3::text[] is null or kind = any($3))
        and ($4::text[] is null or links -> 'lane' ->> 'name' = any($4))
        and not exists (select from wanted_input where coalesce(payload #>> path, 'null') <> value) as matches,
      row_number() over () = $12::integer as is_cut
    from (
      select *
      from holdfast.job_history
      where 'done' = any($6::text[])
        and exists (select from walked)
      order by id desc
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
  select * from failed
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
        shown.priority,
        shown.failed,
        shown.crashes,
        shown.progress,
        by.instance,
        by.host,
        by.os_pid as "osPid",
        shown.cancelled as cancelling,
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
        select worker.instance, instance.host, instance.os_pid
        from holdfast.worker
        left join holdfast.instance on instance.id = worker.instance
        where worker.session = shown.session
        limit 1
      ) as by on true
      order by part, place
    ) as r
  )
) as answer

-- name: job
-- Returns one job ($1). Omits an input or a result of more than $2 bytes. Returns at most $3 linked jobs: the jobs of the same workflow,
-- the dependencies and the dependants. Relies on job_workflow, waiting_workflow, job_history_workflow and dependency_job.
with found as materialized (
  select
    id, queue, kind, case when session is null then 'ready' else 'running' end as state, priority, payload, null::json as result,
    null::json as error, enqueued_at, null::timestamptz as run_at, claimed_at, null::timestamptz as ended_at, session, fence, failed, crashes,
    max_crashes, progress, cancelled, log, failures, links, null as stage
  from holdfast.job
  where id = $1::bigint
  union all
  select
    id, queue, kind, 'waiting', priority, payload, null, null, enqueued_at, run_at, null, null, null, null, failed, crashes,
    max_crashes, null, null, log, failures, links, stage
  from holdfast.waiting
  where id = $1::bigint
  union all
  select
    id, queue, kind, state, priority, payload, result, error, enqueued_at, null, claimed_at, ended_at, session, fence, failed, crashes,
    max_crashes, progress, null, log, failures, links, null
  from holdfast.job_history
  where id = $1::bigint
  limit 1
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
      select id, links from holdfast.job_history
    ) as anywhere
    where links ? 'workflow'
      and (links ->> 'workflow')::bigint = (select (links ->> 'workflow')::bigint from found)
  ) as others
  where id <> $1::bigint
),
shown as materialized (
  select $1::bigint as id
  union all
  (select id from near order by id limit $3::integer)
),
linked as (
  select j.id, j.kind, case when j.session is null then 'ready' else 'running' end as state, j.links
  from shown
  -- `offset 0` makes the planner look up each job by its ID.
  cross join lateral (select * from holdfast.job where job.id = shown.id offset 0) as j
  union all
  select w.id, w.kind, 'waiting', w.links
  from shown
  cross join lateral (select * from holdfast.waiting where waiting.id = shown.id offset 0) as w
  union all
  select h.id, h.kind, h.state, h.links
  from shown
  cross join lateral (select * from holdfast.job_history where job_history.id = shown.id offset 0) as h
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
        by.instance,
        by.host,
        by.os_pid as "osPid",
        found.cancelled as cancelling,
        found.links -> 'lane' ->> 'name' as lane,
        found.links -> 'unique' ->> 'key' as "uniqueKey",
        found.links -> 'workflow' as workflow,
        extract(epoch from enqueued_at) * 1000 as "enqueuedAt",
        extract(epoch from run_at) * 1000 as "runAt",
        extract(epoch from claimed_at) * 1000 as "claimedAt",
        extract(epoch from ended_at) * 1000 as "endedAt",
        octet_length(payload::text) as "inputBytes",
        case when octet_length(payload::text) <= $2::integer then payload end as input,
        octet_length(result::text) as "resultBytes",
        case when octet_length(result::text) <= $2::integer then result end as result,
        error,
        (select json_agg(left(line, 2000)) from unnest(log) as line) as log,
        failures
      from found
      left join holdfast.queue on queue.key = found.queue
      left join lateral (
        select instance.id as instance, instance.host, instance.os_pid
        from holdfast.instance
        where instance.session = found.session
        union all
        select worker.instance, null, null
        from holdfast.worker
        where worker.session = found.session
        limit 1
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
