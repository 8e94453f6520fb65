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
          count(*) filter (where stage = 'budget') as budgeted,
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
          count(*) filter (where state = 'expired') as expired,
          count(*) filter (where state = 'discarded') as discarded
        from unnest(array['buried', 'cancelled', 'expired', 'discarded']) as wanted
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
-- Returns at most $9 jobs that match a search. See found_job for the parameters and the indexes. Running jobs come
-- first, then failed jobs (newest first), ready jobs in claim order, waiting jobs by due time, and the other ended jobs
-- (newest first). Returns for each source how many jobs were found and, if the scan reached its limit, the last scanned
-- position and the number of scanned jobs.
with
-- include: found_job
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
  'sources', (select json_agg(row_to_json(source_state)) from source_state),
    'rows', (
    select json_agg(r)
    from (
      select
        shown.source,
        shown.place,
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
        holdfast.job_budget_names(shown.links) as budgets,
        shown.links -> 'group' ->> 'name' as "group",
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
      order by shown.part, shown.place
    ) as r
  )
) as answer

-- name: matching
-- Returns the same jobs as the statement search, but only the columns that an act on many jobs needs.
with
-- include: found_job
answered as (
  select json_agg(
    json_build_object(
      'source', source, 'place', place, 'id', id, 'kind', kind, 'state', state, 'at', extract(epoch from changed_at) * 1000
    )
    order by part, place
  ) as rows
  from shown
)
select json_build_object(
  'sources', (select json_agg(row_to_json(source_state)) from source_state),
  'rows', (select rows from answered)
) as answer

-- name: export
-- Returns all columns of the given ended jobs ($1), in the given order. Omits jobs that have been retried or deleted in
-- the meantime.
select row_to_json(e)::text as job
from (
  select
    found.id, found.kind, queue.name as queue, queue.namespace, found.state, found.priority,
    to_char(found.enqueued_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as "enqueuedAt",
    to_char(found.claimed_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as "claimedAt",
    to_char(found.ended_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as "endedAt",
    found.failed, found.crashes, found.payload as input, found.result,
    found.error, coalesce(found.meta, '{}') as meta, found.progress, coalesce(array_to_json(found.log), '[]') as log,
    coalesce(found.failures, '[]') as failures
  from unnest($1::text::bigint[]) with ordinality as asked (id, place)
  join holdfast.job_find($1::text::bigint[]) as found using (id)
  left join holdfast.queue on queue.key = found.queue
  where found.ended_at is not null
  order by asked.place
) as e

-- name: input_index
-- Returns whether an administrator has created the indexes on inputs.
select count(*) = 3 as exists
from pg_index
where indisvalid
  and indexrelid in (to_regclass('holdfast.job_input'), to_regclass('holdfast.waiting_input'), to_regclass('holdfast.job_stopped_input'))

-- name: indexed_input
-- Returns at most $2 jobs whose inputs contain one of the values $1. Uses the indexes job_input, waiting_input and job_stopped_input, which exist only
-- if an administrator has created them.
select array(
  select distinct id
  from (
    select found.*
    from unnest($1::text[]::jsonb[]) as pattern
    cross join lateral (
      select id from holdfast.job where holdfast.job_input(payload) @> pattern limit $2::integer
    ) as found
    union all
    select found.*
    from unnest($1::text[]::jsonb[]) as pattern
    cross join lateral (
      select id from holdfast.waiting where holdfast.job_input(payload) @> pattern limit $2::integer
    ) as found
    union all
    select found.*
    from unnest($1::text[]::jsonb[]) as pattern
    cross join lateral (
      select id from holdfast.job_stopped where holdfast.job_input(payload) @> pattern limit $2::integer
    ) as found
  ) as anywhere
  order by id desc
  limit $2::integer
)::text[] as ids

-- name: job
-- Returns one job ($1) and its last $4 steps. Omits an input or a result of more than $2 bytes. Returns at most $3
-- linked jobs: the jobs in the same workflow, the dependencies and the dependents. Uses the indexes job_workflow,
-- waiting_workflow, job_stopped_workflow, dependency_job and job_step_pkey.
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
        holdfast.job_budget_names(found.links) as budgets,
        found.links -> 'group' ->> 'name' as "group",
        found.links -> 'unique' ->> 'key' as "uniqueKey",
        found.links ->> 'trace' as traceparent,
        found.links -> 'workflow' as workflow,
        extract(epoch from enqueued_at) * 1000 as "enqueuedAt",
        extract(epoch from run_at) * 1000 as "runAt",
        extract(epoch from case when found.state <> 'running' then (found.links ->> 'startBy')::timestamptz end) * 1000 as "startBy",
        extract(epoch from claimed_at) * 1000 as "claimedAt",
        extract(epoch from ended_at) * 1000 as "endedAt",
        octet_length(payload::text) as "inputBytes",
        case when octet_length(payload::text) <= $2::integer then payload end as input,
        coalesce(meta, '{}') as meta,
        octet_length(result::text) as "resultBytes",
        case when octet_length(result::text) <= $2::integer then result end as result,
        (select count(*) from holdfast.job_step where job = found.id) as "stepCount",
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
  ),
  'steps', (
    select json_agg(
      json_build_object(
        'name', name, 'kind', kind, 'attempt', attempt, 'startedAt', extract(epoch from started_at) * 1000,
        'endedAt', extract(epoch from ended_at) * 1000, 'until', extract(epoch from due_at) * 1000, 'event', event
      )
      order by started_at, name
    )
    from (select * from holdfast.job_step where job = $1::bigint order by started_at desc, name desc limit $4::integer) as latest
  )
) as answer
