-- Statements of the job queue. None needs session state, so any connection pooler works.
-- Hot statements call a function of the schema, because PostgreSQL caches the plans of functions.

-- name: enqueue
-- Enqueues jobs that may run now. Returns their ids in the order of the inputs.
select array_to_string(holdfast.job_enqueue($1::text::json, $2::text::json), ',') as ids

-- name: enqueue_later
-- Enqueues delayed jobs.
select array_to_string(holdfast.job_enqueue_later($1::text::json, $2::text::json), ',') as ids

-- name: enqueue_linked
-- Enqueues jobs with links.
select array_to_string(holdfast.job_enqueue_linked($1::text::json, $2::text::json, $3::boolean), ',') as ids

-- name: enqueue_unique
-- Enqueues jobs with unique keys. See job_enqueue_unique.
select array_to_string(ids, ',') as ids, array_to_string(are_new, ',') as fresh
from holdfast.job_enqueue_unique($1::text::json, $2::text::json, $3::boolean, $4::text)

-- name: record_queue
-- Stores a queue's name, which is shown to people.
select holdfast.job_record_queue($1::bigint, $2, $3)

-- name: register_worker
-- Registers a worker. The first commit that records an outcome flushes this row. A crash before that commit ends the epoch anyway.
insert into holdfast.worker (session, number, instance, queues, kinds)
values ($1, $2, $3, $4::text::bigint[], $5::text[])
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

-- name: unregister_worker
-- Unregisters a worker. The last row of an epoch stays until all its claims and follow-ups are done.
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

-- name: claim
select state, fence, jobs, new_cursors, oldest, newest, last
from holdfast.job_claim(
  $1::integer, $2::bigint, $3::text::bigint[], $4::text::integer[], $5::text::bigint[], $6::text[], $7::integer, $8::boolean,
  $9::boolean
)

-- name: done
select recorded, array_to_string(follow_ups, ',') as follow_ups
from holdfast.job_done($1::text::bigint[], $2::text::bigint[], $3::text::json, $4::text::bigint[])

-- name: end
select recorded, array_to_string(follow_ups, ',') as follow_ups
from holdfast.job_end($1::text::json, $2::text::bigint[])

-- name: mark_started
-- Marks that suspects are about to run.
update holdfast.job
set started = true
from unnest($1::text::bigint[], $2::text::bigint[]) as s (id, fence)
where job.id = s.id
  and job.fence = s.fence
returning job.id

-- name: check_running
-- Returns the running jobs that the worker still owns, and the reasons why they must stop. Also notifies idle instances that a worker has
-- jobs, because that worker could die.
with told as materialized (
  select pg_notify(holdfast.notification_channel(), 'jobs-running ' || $3)
)
select job.id, job.cancelled
from told, unnest($1::text::bigint[], $2::text::bigint[]) as w (id, fence)
join holdfast.job on job.id = w.id and job.fence = w.fence

-- name: save_notes
-- Stores handlers' progress and log lines.
update holdfast.job
set progress = coalesce(n.progress, job.progress),
    log = case
      when n.lines is null then job.log
      else (
        select array_agg(line order by at)
        from (
          select line, at
          from unnest(job.log || array(select json_array_elements_text(n.lines))) with ordinality as l (line, at)
          order by at desc
          limit 100
        ) as last_lines
      )
    end
from json_to_recordset($1::text::json) as n (id bigint, fence bigint, progress real, lines json)
where job.id = n.id
  and job.fence = n.fence

-- name: give_back
-- Returns jobs to their queues if the response to their claim was lost ($2: the tokens of the claims).
with lost as materialized (
  select fence, jobs
  from holdfast.claim
  where session = $1
    and token = any($2::text::bigint[])
)
select holdfast.job_end(
  (
    select coalesce(json_agg(json_build_object('id', id, 'fence', fence, 'state', 'returned')), '[]')
    from lost
    cross join lateral unnest(jobs) as id
  ),
  array(select fence from lost)
)

-- name: run_follow_ups
select moved, due_ms
from holdfast.job_run_follow_ups($1::text::bigint[], $2::text::bigint[], $3::integer)

-- name: draw_ids
-- Reserves ids for the jobs in a workflow.
with checked as materialized (
  select holdfast.check_job_number()
)
select array_to_string(array(select nextval('holdfast.job_number') from generate_series(1, $1::integer)), ',') as ids
from checked

-- name: last_id
-- Returns an upper limit of all job ids.
select last_value from holdfast.job_number

-- name: enqueue_workflow
select holdfast.job_enqueue_workflow($1::text::json)

-- name: record_import
-- Stores the number of failed attempts and the origin of imported jobs.
with brought as materialized (
  select id, failed, line
  from json_to_recordset($1::text::json) as b (id bigint, failed integer, line text)
),
ready as (
  update holdfast.job
  set failed = brought.failed,
      log = array[brought.line]
  from brought
  where job.id = brought.id
)
update holdfast.waiting
set failed = brought.failed,
    log = array[brought.line]
from brought
where waiting.id = brought.id

-- name: states
-- Returns the states and results of jobs.
with asked as materialized (
  select unnest($1::text::bigint[]) as id
)
select
  j.id, j.kind, case when j.session is null then 'ready' else 'running' end as state, null as result,
  null as error
from asked
join holdfast.job j on j.id = asked.id
union all
select w.id, w.kind, 'waiting', null, null
from asked
join holdfast.waiting w on w.id = asked.id
union all
select h.id, h.kind, h.state, h.result::text, h.error::text
from asked
join holdfast.job_history h on h.id = asked.id

-- name: workflow
-- Returns all jobs in the workflow that contains this job.
with asked as materialized (
  select coalesce(
    (select (links->>'workflow')::bigint from holdfast.job where id = $1),
    (select (links->>'workflow')::bigint from holdfast.waiting where id = $1),
    (select (links->>'workflow')::bigint from holdfast.job_history where id = $1 limit 1),
    $1
  ) as workflow
)
select
  asked.workflow, j.id, j.kind, case when j.session is null then 'ready' else 'running' end as state,
  j.links->'after' as after, j.failed + j.crashes + (j.session is not null)::integer as attempts,
  j.enqueued_at, j.claimed_at, null::timestamptz as ended_at, null as error
from asked
join holdfast.job j on j.links ? 'workflow' and (j.links->>'workflow')::bigint = asked.workflow
union all
select
  asked.workflow, w.id, w.kind, 'waiting', w.links->'after', w.failed + w.crashes, w.enqueued_at, null, null, null
from asked
join holdfast.waiting w on w.links ? 'workflow' and (w.links->>'workflow')::bigint = asked.workflow
union all
select
  asked.workflow, h.id, h.kind, h.state, h.links->'after',
  h.failed + h.crashes + (h.state in ('done', 'discarded'))::integer, h.enqueued_at, h.claimed_at, h.ended_at,
  h.error::text
from asked
join holdfast.job_history h on h.links ? 'workflow' and (h.links->>'workflow')::bigint = asked.workflow
order by 2

-- name: maintain
-- Also returns the oldest code version that the schema works with.
select due_ms, moved, (select max(works_from) from holdfast.migration) as works_from
from holdfast.job_maintain($1::integer)

-- name: roll_partitions
select holdfast.job_roll_partitions($1::integer)

-- name: find
-- Finds a job in any table.
select
  j.id, j.kind, j.queue::text, (select name from holdfast.queue where key = j.queue) as queue_name,
  case when j.session is null then 'ready' else 'running' end as state,
  j.priority, j.payload::text as payload, null as result, null as error, j.enqueued_at, null::timestamptz as run_at,
  j.claimed_at, null::timestamptz as ended_at, j.failed, j.crashes, j.progress, j.log, j.failures::text as failures,
  (select min(instance) from holdfast.worker where worker.session = j.session) as instance, j.cancelled
from holdfast.job j
where j.id = $1
union all
select
  w.id, w.kind, w.queue::text, (select name from holdfast.queue where key = w.queue), 'waiting',
  w.priority, w.payload::text, null, null, w.enqueued_at, w.run_at,
  null, null, w.failed, w.crashes, null, w.log, w.failures::text, null, null
from holdfast.waiting w
where w.id = $1
union all
(
  select
    h.id, h.kind, h.queue::text, (select name from holdfast.queue where key = h.queue), h.state,
    h.priority, h.payload::text, h.result::text, h.error::text, h.enqueued_at, null::timestamptz,
    h.claimed_at, h.ended_at, h.failed, h.crashes, h.progress, h.log, h.failures::text, null, null::text
  from holdfast.job_history h
  where h.id = $1
  -- At most one row exists. Without the limit, the planner expects thousands and compiles the statement (JIT).
  limit 1
)

-- name: waits_for
-- Returns the reason why a waiting or ready job is not running.
with this as materialized (
  select 'ready' as stage, queue, kind, priority, seq, null::bigint as lane, null::smallint as rank,
    null::timestamptz as run_at, failed
  from holdfast.job
  where id = $1
  union all
  select stage, queue, kind, priority, seq, lane, rank, run_at, failed
  from holdfast.waiting
  where id = $1
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
        select from holdfast.job
        where job.queue = this.queue
          and job.session is null
          and (job.priority > this.priority or job.priority = this.priority and job.seq < this.seq)
        limit 10000
      ) as before
    )
    when 'lane' then (
      select count(*)::integer
      from (
        select from holdfast.waiting
        where waiting.lane = this.lane
          and waiting.stage = 'lane'
          and (waiting.rank, waiting.seq) < (this.rank, this.seq)
        limit 10000
      ) as before
    )
    else 0
  end as ahead,
  l.name as lane, l.max, l.active,
  case when l.every is not null then l.free_at - make_interval(secs => (l.burst - 1) * l.every / 1e6) end as free_at,
  case
    when this.stage = 'lane' then (
      select json_agg(json_build_object('id', id, 'instance', (
        select min(instance) from holdfast.worker where worker.session = placed.session
      )))
      from (
        select job.id, job.session
        from holdfast.job
        where links ? 'lane'
          and (links->'lane'->>'key')::bigint = this.lane
        order by job.id
        limit 20
      ) as placed
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

-- name: ended
-- Returns the jobs that have ended.
select id, state, result::text as result, error::text as error
from holdfast.job_history
where id = any($1::text::bigint[])

-- name: cancel
-- Cancels a job. See job_cancel.
select array_to_string(follow_ups, ',') as follow_ups
from holdfast.job_cancel($1::bigint, $2)
where answer is not null

-- name: retry
-- Runs a job again that is waiting, cancelled, discarded or buried. Links can still delay the job. A unique job runs again only if no other
-- job has its key.
with candidate as materialized (
  select id, queue, kind, links
  from holdfast.job_history
  where id = $1
    and state <> 'done'
  for update
),
admitted as materialized (
  select id
  from candidate
  where links is null
    or holdfast.job_retake_key(id, queue, kind, links)
),
ended as (
  delete from holdfast.job_history
  where id = any(array(select id from admitted))
    and state <> 'done'
  returning id, queue, priority, kind, payload, enqueued_at, max_crashes, log, failures, links
),
waiting as (
  delete from holdfast.waiting
  where id = $1
    and links is null
  returning id, queue, priority, kind, payload, enqueued_at, failed, crashes, max_crashes, log, failures
),
hurried as (
  update holdfast.waiting
  set run_at = clock_timestamp()
  where id = $1
    and links is not null
  returning id, queue
),
back as (
  insert into holdfast.job
    (id, seq, queue, priority, kind, payload, enqueued_at, failed, crashes, max_crashes, log, failures)
  select id, nextval('holdfast.job_number'), queue, priority, kind, payload, enqueued_at, 0, 0, max_crashes, log, failures
  from ended
  where links is null
  union all
  select id, nextval('holdfast.job_number'), queue, priority, kind, payload, enqueued_at, failed, crashes, max_crashes, log,
    failures
  from waiting
  returning id, queue
),
linked as (
  insert into holdfast.waiting
    (id, queue, priority, kind, payload, enqueued_at, run_at, max_crashes, log, failures, links)
  select id, queue, priority, kind, payload, enqueued_at, clock_timestamp(), max_crashes, log, failures, links
  from ended
  where links is not null
  returning id, queue
)
select id, is_linked, holdfast.job_wake(queue, 1)
from (
  select *, false as is_linked from back
  union all
  select *, true from linked
  union all
  select *, true from hurried
) as moved

-- name: redrive
-- Runs up to $2 buried jobs of a queue again. Links can still delay these jobs. Jobs whose unique key belongs to another job are skipped.
-- The statement waits for row locks. Relies on job_history_failed. The first call returns its start time, and later calls pass it: jobs
-- that are buried after this time are skipped, because a job that fails immediately would otherwise be redriven forever.
with candidate as materialized (
  select id, ended_at, queue, kind, links
  from holdfast.job_history
  where queue = $1
    and state = 'buried'
    and ended_at < coalesce(to_timestamp($3::double precision), statement_timestamp())
    and (
      links is null
      or links->'unique'->>'until' = 'window'
      or not exists (
        select from holdfast.unique_job u
        where u.queue = job_history.queue
          and u.kind = job_history.kind
          and u.key = job_history.links->'unique'->>'key'
          and (u.expires_at is null or u.expires_at > clock_timestamp())
      )
    )
  order by id
  limit $2
  for update
),
buried as materialized (
  select id, ended_at
  from (select * from candidate order by links->'unique'->>'key' collate "C") as in_order
  where links is null
    or holdfast.job_retake_key(id, queue, kind, links)
),
ended as (
  delete from holdfast.job_history
  using buried
  where job_history.id = buried.id
    and job_history.ended_at = buried.ended_at
    and state = 'buried'
  returning job_history.*
),
back as (
  insert into holdfast.job (id, seq, queue, priority, kind, payload, enqueued_at, max_crashes, log, failures)
  select id, nextval('holdfast.job_number'), queue, priority, kind, payload, enqueued_at, max_crashes, log, failures
  from (select * from ended where links is null order by id) as in_order
  returning queue
),
linked as (
  insert into holdfast.waiting
    (id, queue, priority, kind, payload, enqueued_at, run_at, max_crashes, log, failures, links)
  select id, queue, priority, kind, payload, enqueued_at, clock_timestamp(), max_crashes, log, failures, links
  from ended
  where links is not null
  returning queue
),
woken as (
  select count(*) as jobs, holdfast.job_wake(queue, count(*))
  from (select * from back union all select * from linked) as moved
  group by queue
)
select
  coalesce(sum(jobs), 0)::integer as jobs,
  coalesce($3::double precision, extract(epoch from statement_timestamp()))::double precision as started_at
from woken

-- name: pause
-- Pauses or resumes a queue.
insert into holdfast.queue as known (key, namespace, name, paused_at)
values ($1::bigint, $2, $3, case when $4::boolean then clock_timestamp() end)
on conflict (key) do update
set paused_at = case when $4::boolean then coalesce(known.paused_at, clock_timestamp()) end
returning holdfast.job_wake(key, 32)
