-- No statement needs session state, so any connection pooler works. The functions in functions.sql make all decisions.

-- name: now
-- Returns the database's clock, in ms.
select (extract(epoch from clock_timestamp()) * 1000)::float8 as now

-- name: declare
-- Declares an instance's schedules. See schedule_declare.
select holdfast.schedule_declare($1::integer, $2, $3::text::json)::text as answer

-- name: withdraw
-- Ends an instance's membership in the given schedules.
delete from holdfast.schedule_member
where instance = $1
  and schedule = any($2::text::bigint[])

-- name: poll
-- Runs a member's poll. See schedule_poll.
select holdfast.schedule_poll($1::integer, $2, $3::text::bigint[], $4::bigint, $5::integer)::text as answer

-- name: look
-- Returns what a poll would return, and whether a poll is necessary. Part of the heartbeat. See schedule_look.
select holdfast.schedule_look(
  ($1::text::json ->> 'session')::integer,
  $1::text::json ->> 'instance',
  ($1::text::json ->> 'fences')::bigint[],
  ($1::text::json ->> 'max_fence')::bigint,
  ($1::text::json ->> 'horizon_ms')::integer
)::text
where $1::text::json is not null

-- name: claim
-- Decides which due ticks run, records the decisions, and starts runs. See schedule_claim.
select holdfast.schedule_claim($1::integer, $2, $3::text::json)::text as answer

-- name: end
-- Records runs' results. See schedule_record_ends.
select holdfast.schedule_record_ends($1::text::json)::text as answer

-- name: done
-- Records a successful run in its handler's transaction. Changes only the run's own row. Uses the index tick_pkey.
update holdfast.tick
set state = 'done',
    error = null,
    ended_at = clock_timestamp(),
    job = $5::bigint
where schedule = $1::bigint
  and at = $2::text::timestamptz
  and extra = $3
  and fence = $4::bigint
  and state = 'running'
returning fence

-- name: save_logs
-- Appends handlers' log lines. Skips a run's lines if its fencing token has changed.
insert into holdfast.tick_log as known (schedule, at, extra, lines)
select n.id, n.at, n.extra, array(select json_array_elements(n.lines))
from json_to_recordset($1::text::json) as n (id bigint, at timestamptz, extra boolean, fence bigint, lines json)
where exists (
  select
  from holdfast.tick
  where tick.schedule = n.id
    and tick.at = n.at
    and tick.extra = n.extra
    and tick.fence = n.fence
)
on conflict (schedule, at, extra) do update
set lines = (known.lines || excluded.lines)[greatest(1, cardinality(known.lines) + cardinality(excluded.lines) - 99):]

-- name: change
-- Changes a schedule's rule, or resumes a schedule. See schedule_change.
select holdfast.schedule_change($1::text::json) as answer

-- name: pause
-- Pauses a schedule.
update holdfast.schedule
set paused_at = coalesce(paused_at, clock_timestamp())
where key = holdfast.schedule_resolve($1::bigint)
returning pg_notify(holdfast.notification_channel(), 'schedule-changed ' || key)

-- name: run
-- Requests a run independently of the rule. See schedule_request_run.
select holdfast.schedule_request_run(holdfast.schedule_resolve($1::bigint)) as at

-- name: sweep
-- Removes old ticks, gaps and rules. See schedule_sweep.
select holdfast.schedule_sweep($1::integer, $2::integer, $3::integer)

-- name: store
-- Creates or changes stored schedules. See schedule_store.
select holdfast.schedule_store($1::text::json) as outcomes

-- name: drop
-- Removes a stored schedule. See schedule_drop.
select holdfast.schedule_drop(holdfast.schedule_resolve($1::bigint)) as is_removed

-- name: tick_stored
-- Decides which due ticks of stored schedules enqueue jobs, and records the decisions. See schedule_tick_stored.
select holdfast.schedule_tick_stored($1, $2, $3::text::json, $4::integer, $5::text::bigint[])::text as answer

-- name: look_stored
-- Returns when the stored schedules of a namespace need an instance. Part of the heartbeat. See schedule_stored_due_ms.
select coalesce(holdfast.schedule_stored_due_ms($1::text)::text, 'null')
where $1::text is not null

-- name: sweep_stored
-- Removes old ticks, gaps and rules of some stored schedules. See schedule_sweep_stored.
select holdfast.schedule_sweep_stored($1::bigint, $2::integer, $3::integer, $4::integer, $5::integer)::text as last_key

-- name: find
-- Returns the schedule to which the key $1 of a name refers. If $1 is null, returns the schedules in the namespace $2 whose names
-- contain the text $3 (or null) and follow the name $4 (or null), at most $5 of them. Uses schedule_pkey or schedule_named.
select
  s.key::text as key,
  s.name,
  s.rule,
  s.override,
  (extract(epoch from s.paused_at) * 1000)::float8 as paused_ms,
  s.catch_up,
  s.job_head ->> 'kind' as job_kind,
  (select queue.name from holdfast.queue where queue.key = (s.job_head ->> 'queue')::bigint) as job_queue,
  s.job_input::text as job_input,
  (extract(epoch from s.next_at) * 1000)::float8 as next_ms,
  (extract(epoch from s.settled_at) * 1000)::float8 as settled_ms,
  (extract(epoch from clock_timestamp()) * 1000)::float8 as now_ms,
  present.members,
  present.first_member_ms
from holdfast.schedule s
cross join lateral (
  with member as materialized (
    select instance, session, rule, since
    from holdfast.schedule_member
    where schedule = s.key
  )
  select
    json_agg(json_build_object(
      'instance', instance,
      'instanceName', (select name from holdfast.instance_name where instance_name.id = member.instance),
      'rule', rule
    ) order by since)::text as members,
    (extract(epoch from min(since)) * 1000)::float8 as first_member_ms
  from member
  where holdfast.is_present(session)
) as present
where case
    when $1::bigint is null then
      s.namespace = $2
      and ($3::text is null or strpos(lower(s.name), lower($3)) > 0)
      and ($4::text is null or s.name > $4)
    else s.key = holdfast.schedule_resolve($1::bigint)
  end
order by s.name
limit $5::integer

-- name: names
-- Names of schedules in the namespace $1, to suggest a similar name.
select name
from holdfast.schedule
where namespace = $1
order by name
limit 1000

-- name: runs
-- Returns a schedule's runs and gaps ($2 at most), latest first. Returns only the gaps if $3 is true. Returns times as numbers, because the
-- drivers read the text of a time only in the ISO format, and the database's setting DateStyle can select another format.
select
  (extract(epoch from at) * 1000)::float8 as at_ms,
  state, extra, instance, instance_name, attempt,
  (extract(epoch from started_at) * 1000)::float8 as started_ms,
  (extract(epoch from ended_at) * 1000)::float8 as ended_ms,
  error::text as error, job, log,
  (extract(epoch from last_at) * 1000)::float8 as last_ms,
  ticks, reason
from (
  select
    at,
    -- After a crash, the row keeps the state running until a live member's poll records the crash.
    case when state = 'running' and not holdfast.is_present(session) then 'lost' else state end as state,
    extra, instance,
    (select name from holdfast.instance_name where instance_name.id = latest_ticks.instance) as instance_name,
    attempt, started_at, ended_at, error, job,
    (
      select array_to_json(lines)::text
      from holdfast.tick_log l
      where l.schedule = latest_ticks.schedule
        and l.at = latest_ticks.at
        and l.extra = latest_ticks.extra
    ) as log,
    null::timestamptz as last_at, null as ticks, null as reason
  from (
    select *
    from holdfast.tick
    where schedule = holdfast.schedule_resolve($1::bigint)
      and not $3::boolean
    order by at desc
    limit $2
  ) as latest_ticks
  union all
  select first_at, null, null, null, null, null, null, null, null, null, null, last_at, ticks, reason
  from (
    select *
    from holdfast.gap
    where schedule = holdfast.schedule_resolve($1::bigint)
    order by first_at desc
    limit $2
  ) as latest_gaps
) as latest
order by at desc
limit $2
