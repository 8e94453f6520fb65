-- The job queue's statements. None needs session state, so any connection pooler works. Hot statements call one of the schema's functions, because
-- PostgreSQL caches the plans of functions.

-- name: enqueue prepared
-- Enqueues jobs. Returns their ids in the order of the inputs, and which are new if they have unique keys. See job_enqueue.
select array_to_string(ids, ',') as ids, array_to_string(are_new, ',') as fresh
from holdfast.job_enqueue($1::text::json, $2::text::json, $3::boolean, $4::text, $5::text::json, $6::bigint, $7::boolean)

-- name: reserve prepared
-- Reserves room in budgets for jobs that the next statement enqueues. See lane_reserve.
select number, array_to_string(reserved, ',') as heads
from holdfast.lane_reserve($1::text::json)

-- name: record_queue
-- Stores a queue's name, which is shown to people.
select holdfast.job_record_queue($1::bigint, $2, $3)

-- name: register_worker
-- Registers a worker. The first commit that records an outcome flushes this row. A crash before that commit also ends the epoch, so the
-- loss of the row is harmless. Also records the kinds ($6) that this worker adds or changes.
with wanted as materialized (
  select k.queue, k.kind, k.schema, k.keep_days
  from json_to_recordset($6::text::json) as k (queue bigint, kind text, schema json, keep_days integer)
),
recorded as (
  insert into holdfast.job_kind (queue, kind, input_schema, keep_days)
  select queue, kind, schema, keep_days
  from wanted
  where not exists (
    select
    from holdfast.job_kind
    where job_kind.queue = wanted.queue
      and job_kind.kind = wanted.kind
      and job_kind.input_schema::text is not distinct from wanted.schema::text
      and job_kind.keep_days is not distinct from wanted.keep_days
      and job_kind.registered_at > clock_timestamp() - interval '1 day'
  )
  order by queue, kind
  on conflict on constraint job_kind_pkey do update
  set input_schema = excluded.input_schema,
      keep_days = excluded.keep_days,
      registered_at = excluded.registered_at
)
insert into holdfast.worker (session, number, instance, queues, kinds, slots)
values ($1, $2, $3, $4::text::bigint[], $5::text[], $7)
on conflict (session, number) do update
set queues = excluded.queues,
    kinds = excluded.kinds

-- name: set_sleeping
-- Sets whether a worker wants notifications about new jobs.
update holdfast.worker
set sleeping = $3
where session = $1
  and number = $2
  and sleeping <> $3

-- name: pass_on
-- Wakes another worker of the same queues in place of a worker that cannot claim, and that wants no more notifications until it is idle again.
with busy_worker as (
  update holdfast.worker
  set sleeping = false
  where session = $1
    and number = $2
  returning queues
)
select holdfast.job_wake(queue, 1)
from busy_worker, unnest(queues) as queue

-- name: wake
-- Wakes an idle worker of the queue.
select holdfast.job_wake($1, 1)

-- name: unregister_worker
-- Unregisters a worker. The epoch's last row remains until all of the epoch's claims and follow-ups are done.
with gone as (
  delete from holdfast.worker
  where session = $1
    and number = $2
    and (
      (
        not exists (select from holdfast.claim where claim.session = $1)
        and not exists (select from holdfast.follow_up where follow_up.session = $1)
      )
      or exists (select from holdfast.worker as other where other.session = $1 and other.number <> $2)
    )
  returning number
)
update holdfast.worker
set kinds = '{}', sleeping = false
where session = $1
  and number = $2
  and not exists (select from gone)

-- name: stop_claiming
-- Stops claims by a worker that is closing and waiting for its running jobs. The worker also gets no more wake-ups.
update holdfast.worker
set kinds = '{}', sleeping = false
where session = $1
  and number = $2

-- name: claim prepared
select state, fence, jobs, is_drained, large_id, json_out(large_input) as large_input
from holdfast.job_claim($1::integer, $2::bigint, $3::text::bigint[], $4::text[], $5::integer, $6::boolean, $7::boolean)

-- name: done prepared
select recorded, array_to_string(follow_ups, ',') as numbers, urgent
from holdfast.job_done($1::text::bigint[], $2::text::bigint[], $3::text::json, $4::text::bigint[])

-- name: end prepared
select recorded, array_to_string(follow_ups, ',') as numbers
from holdfast.job_end($1::text::json, $2::text::bigint[])

-- name: mark_started
-- Records that suspect jobs are about to run. Returns the ids of the suspect jobs that this worker still owns.
insert into holdfast.job_note as n (id, fence, started)
select s.id, s.fence, true
from unnest($1::text::bigint[], $2::text::bigint[]) as s (id, fence)
where exists (select from holdfast.claim where claim.fence = s.fence)
on conflict on constraint job_note_pkey do update
set started = true
returning n.id

-- name: check_running
-- Returns the running jobs that the worker still owns, and the reasons why they must stop. Also notifies idle instances that this worker
-- has jobs, so that they can detect if it dies.
with notified as materialized (
  select pg_notify(holdfast.notification_channel(), 'jobs-running ' || $3)
)
select w.id, n.cancelled
from notified, unnest($1::text::bigint[], $2::text::bigint[]) as w (id, fence)
join holdfast.claim on claim.fence = w.fence
left join holdfast.job_note n on n.id = w.id and n.fence = w.fence

-- name: save_notes
-- Stores handlers' progress and log lines.
insert into holdfast.job_note as known (id, fence, progress, log)
select n.id, n.fence, n.progress, case when json_array_length(n.lines) > 0 then array(select json_array_elements(n.lines)) end
from json_to_recordset($1::text::json) as n (id bigint, fence bigint, progress json, lines json)
where exists (select from holdfast.claim where claim.fence = n.fence)
on conflict on constraint job_note_pkey do update
set progress = coalesce(excluded.progress, known.progress),
    log = (known.log || excluded.log)[greatest(1, cardinality(known.log || excluded.log) - 99):]

-- name: give_back
-- Returns jobs to their queues if the response to their claim was lost ($2: the claims' tokens).
with lost as materialized (
  select fence, ids
  from holdfast.claim
  where session = $1
    and token = any($2::text::bigint[])
)
select array_to_string(follow_ups, ',') as numbers
from holdfast.job_end(
  (
    select coalesce(json_agg(json_build_object('id', id, 'fence', fence, 'state', 'returned')), '[]')
    from lost
    cross join lateral unnest(ids) as id
  ),
  array(select fence from lost)
)

-- name: run_follow_ups prepared
select moved, due_ms
from holdfast.job_run_follow_ups($1::text::bigint[], $2::text::bigint[], $3::integer)

-- name: draw_ids
-- Reserves ids for the jobs in a workflow.
with checked as materialized (
  select holdfast.job_era()
)
select array_to_string(array(select nextval('holdfast.job_number') from generate_series(1, $1::integer)), ',') as ids
from checked

-- name: last_id
-- Returns an upper limit for all job ids.
select last_value from holdfast.job_number

-- name: states
-- Returns the states and results of jobs.
select id, kind, state, result::text as result, error::text as error
from holdfast.job_find($1::text::bigint[])

-- name: workflow
-- Returns all jobs in the workflow that contains this job.
with asked as materialized (
  select coalesce((select (links->>'workflow')::bigint from holdfast.job_find(array[$1::bigint])), $1) as workflow
),
members as materialized (
  select array(
    select id from holdfast.job where links ? 'workflow' and (links->>'workflow')::bigint = asked.workflow
    union
    select id from holdfast.waiting where links ? 'workflow' and (links->>'workflow')::bigint = asked.workflow
    union
    select id from holdfast.job_stopped where links ? 'workflow' and (links->>'workflow')::bigint = asked.workflow
  ) as ids
  from asked
)
select
  asked.workflow, f.id, f.kind, f.state, f.links->'after' as after,
  f.failed + f.crashes + (f.state in ('running', 'done', 'discarded'))::integer as attempts,
  f.enqueued_at, f.claimed_at, f.ended_at, f.error::text as error
from asked, members, holdfast.job_find(members.ids) as f
order by f.id

-- name: unserved
-- Returns the pairs of a queue ($1) and a kind ($2) for which no worker claims jobs, with the number of ready jobs (see
-- job_ready_sample). Skips paused queues.
with unserved as materialized (
  select found.*
  from holdfast.job_unserved($1::text::bigint[], $2::text[]) as found
  where not exists (select from holdfast.queue where queue.key = found.queue and queue.paused_at is not null)
)
select
  unserved.queue::text as queue, unserved.kind, unserved.unserved,
  count(ready.entry)::integer as jobs,
  coalesce(max(extract(epoch from clock_timestamp() - ready.enqueued_at) * 1000), 0)::float8 as for_ms
from unserved
left join holdfast.job_ready_sample(array(select distinct queue from unserved)) as ready
  on ready.queue = unserved.queue and ready.kind = unserved.kind
group by unserved.queue, unserved.kind, unserved.unserved

-- name: maintain prepared
-- Also returns the oldest code version that the schema works with, and the jobs that this call has taken over from dead
-- workers. has_late: whether there are jobs whose deadline has passed. The statement expire ends these jobs. epochs: number of epochs that
-- have workers.
select
  due_ms, moved, (select max(works_from) from holdfast.migration) as works_from, nullif(taken_over, '{}')::text as taken_over,
  exists (select from holdfast.job_deadline where start_by <= (select clock_timestamp())) as has_late,
  (select count(distinct session)::integer from holdfast.worker) as epochs
from holdfast.job_maintain($1::integer)

-- name: expire
-- Ends jobs that no worker has claimed before their deadline. See job_expire.
select expired.id, expired.kind, queue.name as queue, expired.start_by
from holdfast.job_expire($1::integer) as expired
left join holdfast.queue on queue.key = expired.queue

-- name: crashed
-- Returns which of the given jobs ($1) were buried because their workers died.
select job_stopped.id, job_stopped.kind, queue.name as queue, job_stopped.crashes
from unnest($1::text::bigint[]) as requested (id)
join holdfast.job_stopped on job_stopped.id = requested.id
left join holdfast.queue on queue.key = job_stopped.queue
where job_stopped.state = 'buried'
  and job_stopped.error->>'code' = 'WORKER_CRASHED'
  and job_stopped.ended_at > clock_timestamp() - interval '1 minute'

-- name: look
-- Returns whether there is work for an idle instance. Part of the heartbeat. See job_look.
select row_to_json(look)::text
from holdfast.job_look(($1::text::json ->> 'session')::integer, $1::text::json -> 'workers') as look
where $1::text::json is not null

-- name: archive
-- Moves ended jobs that are kept for longer than $1 days, out of the next $3 jobs after $2. See job_archive_ended.
select holdfast.job_archive_ended($1::integer, $2::bigint, $3::integer) as last_id

-- name: roll_partitions
select holdfast.job_roll_partitions($1::integer)

-- name: find
-- Finds a job.
select
  f.id, f.kind, f.queue::text, (select name from holdfast.queue where key = f.queue) as queue_name, f.state, f.priority,
  f.payload::text as payload, f.result::text as result, f.error::text as error, f.enqueued_at, f.run_at,
  case when f.state <> 'running' then (f.links->>'startBy')::timestamptz end as start_by, f.claimed_at, f.ended_at, f.failed,
  f.crashes, f.progress::text as progress, array_to_json(f.log)::text as log, f.failures::text as failures,
  by.id as instance, by.name as instance_name, f.cancelled, f.meta::text as meta,
  (
    select json_agg(
      json_build_object(
        'name', s.name, 'kind', s.kind, 'attempt', s.attempt, 'startedAt', s.started_at, 'endedAt', s.ended_at, 'until', s.due_at,
        'event', s.event
      )
      order by s.started_at, s.name
    )::text
    from holdfast.job_step s
    where s.job = f.id
  ) as steps
from holdfast.job_find(array[$1::bigint]) as f
left join lateral (select holdfast.instance_of_session(f.session) as id offset 0) as known on true
left join holdfast.instance_name as by on by.id = known.id

-- name: waits_for
-- Returns the reason why a waiting or ready job is not running.
with this as materialized (
  select
    coalesce(w.stage, f.state) as stage, f.queue, f.kind, f.priority, f.entry, w.seq, w.lane, w.rank, f.run_at, f.failed
  from holdfast.job_find(array[$1::bigint]) as f
  left join holdfast.waiting w on w.id = f.id
  where f.state in ('waiting', 'ready')
)
select
  this.stage, this.kind, this.run_at, coalesce(this.run_at <= clock_timestamp(), true) as is_due, this.failed,
  (select paused_at from holdfast.queue where key = this.queue) as paused_at,
  case
    when this.stage in ('ready', 'time') then (
      select unserved from holdfast.job_unserved(array[this.queue], array[this.kind])
    )
  end as unserved,
  case this.stage
    when 'ready' then (
      select count(*)::integer
      from (
        select from holdfast.job_ready
        where job_ready.queue = this.queue
          and (job_ready.priority > this.priority or job_ready.priority = this.priority and job_ready.entry < this.entry)
        limit 10000
      ) as before
    )
    when 'time' then 0
    when 'jobs' then 0
    else (
      select count(*)::integer
      from (
        select from holdfast.waiting
        where waiting.lane = this.lane
          and (waiting.rank, waiting.seq) < (this.rank, this.seq)
        limit 10000
      ) as before
    )
  end as ahead,
  l.name as lane, l.scope, l.max, l.active,
  case when l.every is not null then l.free_at - make_interval(secs => (l.burst - 1) * l.every / 1e6) end as free_at,
  case
    when this.stage = 'lane' then (
      select json_agg(json_build_object('id', placed.id, 'instance', by.id, 'instanceName', by.name))
      from (
        select f.id, f.session
        from holdfast.job_find(
          array(
            select entered.id
            from holdfast.job entered
            where entered.links ? 'lane'
              and (entered.links->'lane'->>'key')::bigint = this.lane
            order by entered.entry desc
            limit 1000
          )
        ) as f
        where f.state in ('ready', 'running')
        order by f.id
        limit 20
      ) as placed
      left join lateral (select holdfast.instance_of_session(placed.session) as id offset 0) as known on true
      left join holdfast.instance_name as by on by.id = known.id
    )
  end as running,
  case
    when this.stage = 'jobs' then (
      select json_agg(json_build_object('id', needs, 'state', state) order by needs) from holdfast.job_unmet_dependencies(array[$1::bigint], 20)
    )
  end as jobs
from this
left join lateral (
  select * from holdfast.lane where lane.key = this.lane order by version desc limit 1
) as l on true

-- name: cancel
-- Cancels a job. See job_cancel.
select array_to_string(follow_ups, ',') as follow_ups
from holdfast.job_cancel($1::bigint, $2)
where answer is not null

-- name: update
-- Changes a job that is waiting or ready. See job_update.
select holdfast.job_update(
  $1::bigint, $2, $3::text::json, $4::text::json, $5::smallint, $6::bigint, $7::timestamptz, $8::bigint, $9::timestamptz
) as kind

-- name: watched
-- Returns a digest for each of the given jobs ($1). The digest changes whenever the job's result from the statement
-- find changes.
select f.id, md5(concat_ws(
  '|', f.state, f.entry, f.fence, f.failed, f.crashes, f.cancelled, f.progress::text, f.run_at, f.priority, f.links::text, f.meta::text,
  cardinality(f.log), f.log[cardinality(f.log)]::text,
  -- Only the input of a waiting job can change without another entry.
  case when f.state = 'waiting' then md5(f.payload::text) end,
  (select string_agg(concat_ws(',', s.name, s.started_at, s.ended_at), ',' order by s.name) from holdfast.job_step s where s.job = f.id)
)) as digest
from holdfast.job_find($1::text::bigint[]) as f

-- name: retry
-- Runs a job again. See job_retry.
select holdfast.job_retry($1::bigint, $2::boolean) as is_retried

-- name: retry_many
-- Retries the given jobs ($1). See job_retry. Waits for row locks. Acquires the unique keys in order, so that two calls
-- cannot deadlock. Skips jobs whose unique key belongs to another job. Returns the changed jobs.
with candidate as materialized (
  select id, queue, kind, links from holdfast.job_stopped where id = any($1::bigint[]) order by id for update
),
waits as materialized (
  select id from holdfast.waiting where id = any($1::bigint[]) and id not in (select id from candidate) order by id
),
stopped as materialized (
  select id
  from (select distinct on (links->'unique'->>'key' collate "C", id) * from candidate order by links->'unique'->>'key' collate "C", id) as in_order
  where links is null
    or holdfast.job_retake_key(id, queue, kind, links)
),
due as materialized (
  select id from waits where holdfast.job_retry(id, false)
)
select
  array(select id from stopped union all select id from due)::text[] as ids,
  holdfast.job_run_again(array(select id from stopped)) as ready

-- name: cancel_many
-- Cancels the given jobs ($1). See job_cancel. Returns the changed jobs and their follow-ups.
with changed as materialized (
  select requested.id, cancelled.follow_ups
  from unnest($1::bigint[]) as requested (id)
  cross join lateral holdfast.job_cancel(requested.id, $2) as cancelled
  where cancelled.answer is not null
)
select
  array(select id from changed)::text[] as ids,
  (select string_agg(array_to_string(follow_ups, ','), ',') from changed where cardinality(follow_ups) > 0) as follow_ups

-- name: discard_many
-- Discards the buried jobs among the given jobs ($1). The dependents of discarded jobs can run. Returns the changed
-- jobs and their follow-ups.
with candidate as materialized (
  select id, ended_at, queue, kind, links
  from holdfast.job_stopped
  where id = any($1::bigint[])
    and state = 'buried'
  order by id
  for update
),
discarded as (
  update holdfast.job_stopped
  set state = 'discarded'
  from candidate
  where job_stopped.id = candidate.id
    and job_stopped.ended_at = candidate.ended_at
)
select
  array(select id from candidate)::text[] as ids,
  array_to_string(
    holdfast.job_record_follow_ups(
      coalesce(
        (
          select jsonb_agg(
            jsonb_build_object('id', id, 'queue', queue, 'kind', kind, 'state', 'discarded', 'links', links, 'holds', 'none')
          )
          from candidate
        ),
        '[]'
      )
    ),
    ','
  ) as follow_ups

-- name: redrive
-- Retries up to $2 of a queue's buried jobs. The jobs' links can still delay them. Skips jobs whose unique key belongs
-- to another job. Waits for row locks. The first call returns its start time, which later calls pass as $3. Jobs that
-- were buried after this time are skipped; otherwise, a job that fails immediately would be redriven forever. Uses the
-- index job_stopped_state.
with candidate as materialized (
  select id, ended_at, queue, kind, links
  from holdfast.job_stopped
  where queue = $1
    and state = 'buried'
    and ended_at < coalesce(to_timestamp($3::double precision), statement_timestamp())
    and (
      links is null
      or links->'unique'->>'until' = 'window'
      or not exists (
        select from holdfast.unique_job u
        where u.queue = job_stopped.queue
          and u.kind = job_stopped.kind
          and u.key = job_stopped.links->'unique'->>'key'
          and u.id <> job_stopped.id
          and (u.expires_at is null or u.expires_at > clock_timestamp())
      )
    )
  order by id
  limit $2
  for update
),
buried as materialized (
  select id
  from (select * from candidate order by links->'unique'->>'key' collate "C") as in_order
  where links is null
    or holdfast.job_retake_key(id, queue, kind, links)
)
select
  count(*)::integer as jobs,
  coalesce($3::double precision, extract(epoch from statement_timestamp()))::double precision as started_at,
  holdfast.job_run_again(array_agg(id))
from buried

-- name: pause
-- Pauses or resumes a queue. Returns no row if no instance has used the queue: it has neither a name nor jobs. $5 is
-- true if this instance has used the queue, whose name may not be stored yet. A pause waits for running claims, because
-- such a claim may already have read that the queue is not paused.
with locked as materialized (
  select case when $4::boolean then pg_advisory_xact_lock(holdfast.lock_class('job claims'), $1::bigint::bit(32)::integer) end
)
insert into holdfast.queue as known (key, namespace, name, paused_at)
select $1::bigint, $2, $3, case when $4::boolean then clock_timestamp() end
from locked
where $5::boolean
   or exists (select from holdfast.queue where key = $1::bigint)
   or exists (select from holdfast.job where queue = $1::bigint)
on conflict (key) do update
set paused_at = case when $4::boolean then coalesce(known.paused_at, clock_timestamp()) end
returning holdfast.job_wake(key, 32)

-- name: known_queues
-- Returns whether a queue ($1) has a name or jobs, and the names of queues in the namespace ($2), to suggest a similar
-- name.
select
  exists (select from holdfast.queue where key = $1::bigint)
    or exists (select from holdfast.job where queue = $1::bigint) as is_known,
  array(select name from holdfast.queue where namespace = $2 order by name limit 1000) as names

-- name: steps prepared
-- Returns a job's recorded steps.
select name, kind, ended_at is not null as has_ended, result::text as result
from holdfast.job_step
where job = $1::bigint

-- name: record_step prepared
-- Records a step. See job_record_step.
select holdfast.job_record_step($1::bigint, $2::bigint, $3, $4, $5::integer, $6::double precision, $7::text::json) as recorded

-- name: wait prepared
-- Begins or ends a sleep or a wait for an event. See job_wait.
select state, result::text as result, left_ms
from holdfast.job_wait(
  $1::bigint, $2::bigint, $3, $4, $5::integer, $6, $7::double precision, to_timestamp($8::double precision / 1000)
)

-- name: suspend prepared
-- Ends the attempt of a job that sleeps or waits for an event. See job_suspend.
select recorded, array_to_string(follow_ups, ',') as numbers
from holdfast.job_suspend($1::bigint, $2::bigint, $3)

-- name: send
-- Sends an event to a job. See job_send.
select holdfast.job_send($1::bigint, $2, $3::text::json, $4) as answer
