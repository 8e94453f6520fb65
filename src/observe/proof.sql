-- Read-only statements that check Holdfast's invariants against its tables and PostgreSQL's lock table. Each statement
-- returns one row: the number of checked rows, the number of violations, and the first 20 violations as facts. The text
-- of a fact does not change while the violation lasts. The statements check all current holds, but only the most recent
-- holds that have ended.

-- name: clock
select (extract(epoch from clock_timestamp()) * 1000)::float8 as now_ms

-- name: one_holder
-- A name is held by one session, by several sessions in shared mode, or by a lease, but never as a lock and by a lease
-- at the same time. Each of the latest ended terms ended before the next term began. Ignores terms that were taken away
-- from their holder, because the holder detects the loss late. Uses the indexes lease_pkey, term_ended_at and
-- term_pkey.
with
-- include: advisory
held as materialized (
  select key, mode, pid from advisory where key is not null and granted
),
leased as materialized (
  select key, instance from holdfast.lease where token <> '' and expires_at > clock_timestamp()
),
-- A call that is trying to acquire a leased name briefly holds the lock on the name. Only actual holds have a row in the table hold.
both_ways as materialized (
  select distinct held.key, pid, leased.instance
  from held
  join leased using (key)
),
ended as materialized (
  select key, fence, mode, ended_at, why
  from (select * from holdfast.term where ended_at is not null order by ended_at desc limit 2000) as latest
  where why in ('released', 'release-requested', 'drained', 'closed', 'stepped-down', 'replaced', 'not-eligible', 'gone')
),
wrong as materialized (
  select ended.key, format('fence %s was granted while fence %s held the name', next.fence, ended.fence) as what
  from ended
  cross join lateral (
    select fence, mode, began_at
    from holdfast.term
    where term.key = ended.key
      and term.fence > ended.fence
    order by fence
    limit 1
  ) as next
  where next.began_at < ended.ended_at - interval '1 second'
    and 'exclusive' in (next.mode, ended.mode)
  union all
  select key, format('%s sessions hold the name, and one of them exclusively: %s', count(*), string_agg(pid::text, ', ' order by pid)) as what
  from held
  group by key
  having count(*) > 1
    and bool_or(mode = 'ExclusiveLock')
  union all
  select key, format('session %s holds the lock, and instance %s holds the lease', pid, instance)
  from both_ways
  where exists (
    select
    from holdfast.hold
    where hold.key = both_ways.key
      and hold.session in (select session from advisory where advisory.pid = both_ways.pid)
  )
)
select
  (
    select count(distinct key)
    from (select key from held union all select key from leased union all select key from ended) as names
  )::integer as checked,
  (select count(*) from wrong)::integer as wrong,
  (
    select json_agg(format('%s: %s', coalesce(name.label, 'key ' || first.key), what))
    from (select * from wrong order by key, what limit 20) as first
    left join holdfast.name using (key)
  ) as facts

-- name: fences_grow
-- The holder of a name has the largest fencing token that was used for a guarded write, and no fencing token exceeds the value of the
-- sequence. Among the latest ended terms, a later term has a larger fencing token. Uses the indexes fence_guard_pkey, term_ended_at and
-- term_pkey.
with
-- include: advisory
drawn as materialized (
  select last_value from holdfast.fence
),
held as materialized (
  select key, fence, mode, session, null as instance from holdfast.hold
  union all
  select key, fence, 'exclusive', null, instance from holdfast.lease where token <> '' and expires_at > clock_timestamp()
),
suspect as materialized (
  select held.*, fence_guard.fence as used
  from held
  left join holdfast.fence_guard using (key)
  where fence_guard.fence > held.fence and mode = 'exclusive'
    or held.fence > (select last_value from drawn)
),
ended as materialized (
  select key, fence, began_at from holdfast.term where ended_at is not null order by ended_at desc limit 2000
),
wrong as materialized (
  select ended.key, format('fence %s was granted before fence %s', next.fence, ended.fence) as what
  from ended
  cross join lateral (
    select fence, began_at
    from holdfast.term
    where term.key = ended.key
      and term.fence > ended.fence
    order by fence
    limit 1
  ) as next
  where next.began_at < ended.began_at - interval '1 second'
  union all
  select
    key,
    case
      when used > fence then format('the holder has fence %s, but a write used a larger fence', fence)
      else format('held with fence %s, which is larger than any assigned fence', fence)
    end as what
  from suspect
  -- A row in the table hold is outdated if the session has ended or has released the name.
  where session is null
    or exists (
      select
      from advisory as present
      join advisory as holding using (pid)
      where present.session = suspect.session
        and holding.key = suspect.key
        and holding.granted
    )
)
select
  ((select count(*) from held) + (select count(*) from ended))::integer as checked,
  (select count(*) from wrong)::integer as wrong,
  (
    select json_agg(format('%s: %s', coalesce(name.label, 'key ' || first.key), what))
    from (select * from wrong order by key, what limit 20) as first
    left join holdfast.name using (key)
  ) as facts

-- name: no_leaks
-- No instance that has been silent for too long holds a lock, a lease or a permit that calls are waiting for. Uses the indexes permit_queue
-- and permit_pkey.
with
-- include: advisory
ours as materialized (
  select pid, substr(application_name, 10) as instance, state, state_change
  from pg_stat_activity
  where application_name like 'holdfast %'
),
locked as materialized (
  select key, pid from advisory where key is not null and granted and pid in (select pid from ours)
),
silent as materialized (
  select ours.pid, ours.instance
  from ours
  left join holdfast.instance on instance.id = ours.instance
  where ours.state like 'idle%'
    and ours.state_change < clock_timestamp() - 2 * make_interval(secs => coalesce(expiry_ms, 30000) / 1000.0)
),
leased as materialized (
  select key, instance, ttl_ms, expires_at from holdfast.lease where token <> '' and expires_at > clock_timestamp()
),
waited_for as materialized (
  select key, min(since) as since from holdfast.permit where fence is null group by key order by key limit 1000
),
granted as materialized (
  select permit.key, permit.session, permit.instance
  from waited_for
  join holdfast.permit using (key)
  where permit.fence is not null
),
gone as materialized (
  select session from (select distinct session from granted offset 0) as presence where not holdfast.is_present(session)
),
wrong as materialized (
  select
    coalesce(name.label, 'key ' || key) as what,
    format('held by session %s of instance %s, which has been silent for too long', pid, instance) as why
  from locked
  join silent using (pid)
  left join holdfast.name using (key)
  union all
  select coalesce(name.label, 'key ' || key), format('leased by instance %s for longer than the ttl of %s ms', instance, ttl_ms)
  from leased
  left join holdfast.name using (key)
  where expires_at > clock_timestamp() + make_interval(secs => ttl_ms / 1000.0 + 1)
  union all
  select coalesce(limit_state.name, 'key ' || key), format('instance %s is dead and still has a permit that calls wait for', instance)
  from granted
  left join holdfast.limit_state using (key)
  where session in (select session from gone)
)
select
  ((select count(*) from locked) + (select count(*) from leased) + (select count(*) from granted))::integer as checked,
  (select count(*) from wrong)::integer as wrong,
  (select json_agg(format('%s: %s', what, why)) from (select * from wrong order by what, why limit 20) as first) as facts

-- name: no_job_lost
-- Claimed jobs belong to live workers, due jobs become ready, and a job's dependencies exist. Uses the indexes waiting_run_at,
-- dependency_pkey and the indexes of job_find.
with presence as materialized (
  select session, holdfast.is_present(session) as present
  from (select session from holdfast.claim union select session from holdfast.worker) as sessions
),
claimed as materialized (
  select claim.fence, claim.session, id
  from (select * from holdfast.claim order by fence limit 1000) as claim
  cross join lateral unnest(claim.ids) as id
),
orphaned as materialized (
  select lost.id, lost.session
  from (select * from claimed where session in (select session from presence where not present) limit 1000) as lost
  cross join lateral (select from holdfast.job where job.id = lost.id limit 1) as entered
  where not exists (
    select
    from holdfast.job_end
    where job_end.bucket = holdfast.job_bucket(lost.id)
      and job_end.fence = lost.fence
      and lost.id = any(job_end.ids)
    offset 0
  )
),
due as materialized (
  select id, run_at
  from holdfast.waiting
  where stage = 'time'
    and run_at < clock_timestamp()
  order by run_at
  limit 1000
),
needed as materialized (
  select needs, job from holdfast.dependency order by needs, job limit 1000
),
known as materialized (
  select id from holdfast.job_find(array(select distinct needs from needed))
),
wrong as materialized (
  select id, format('job %s belongs to session %s, which has ended', id, session) as what
  from orphaned
  union all
  select id, format('job %s was due at %s, but is not ready yet', id, run_at)
  from due
  where run_at < clock_timestamp() - interval '1 minute'
    and exists (
      select
      from holdfast.worker
      join presence using (session)
      where present
        and since < clock_timestamp() - interval '1 minute'
    )
  union all
  select job, format('job %s waits for job %s, which does not exist', job, needs)
  from needed
  where needs not in (select id from known)
)
select
  ((select count(*) from claimed) + (select count(*) from due) + (select count(*) from needed))::integer as checked,
  (select count(*) from wrong)::integer as wrong,
  (select json_agg(what) from (select * from wrong order by id, what limit 20) as first) as facts

-- name: one_end
-- Each of the latest finished jobs has exactly one recorded end, as a done job or as a stopped job. None of these jobs
-- is waiting, ready or running. Uses the indexes job_end_bucket, job_stopped_id, job_id and waiting_pkey.
with
-- include: running_job
latest as materialized (
  select ids.id, holdfast.job_bucket(ids.id) as bucket
  from (
    with recursive step as (
      (select bucket from holdfast.job_end order by bucket desc limit 1)
      union all
      select (select max(bucket) from holdfast.job_end where job_end.bucket < step.bucket) from step where bucket is not null
    )
    select bucket from step where bucket is not null
  ) as step
  cross join lateral (
    select unnest(job_end.ids) as id from holdfast.job_end where job_end.bucket = step.bucket and is_done offset 0
  ) as ids
  limit 5000
),
stopped as materialized (
  select id from holdfast.job_stopped order by id desc limit 5000
),
ended as materialized (
  select id from latest
  union all
  select id from stopped
),
twice as materialized (
  select id from ended
  union all
  -- Finds a duplicate end record that is older than the end records read above.
  select id
  from latest
  where id not in (select id from stopped)
    and exists (select from holdfast.job_stopped where job_stopped.id = latest.id offset 0)
),
entered as materialized (
  select newest.*
  from (select distinct id from ended) as ended
  cross join lateral (select id, entry, queue, priority, era, xid from holdfast.job where job.id = ended.id order by entry desc limit 1) as newest
),
queued as materialized (
  select id
  from entered
  left join holdfast.job_levels() as level using (queue, priority)
  where (
      exists (select from holdfast.job_skipped where job_skipped.entry = entered.entry offset 0)
      or entered.era > level.era
      or entered.era = level.era
        and (entered.xid >= pg_snapshot_xmax(level.base) or not pg_visible_in_snapshot(entered.xid, level.base))
        and not (pg_visible_in_snapshot(entered.xid, level.upto) and (entered.xid, entered.entry) <= (level.at_xid, level.at_entry))
    )
    and not exists (select from holdfast.job_removed where job_removed.entry = entered.entry offset 0)
  union all
  select id from ended where id in (select id from running_job)
  union all
  select ended.id from ended where exists (select from holdfast.waiting where waiting.id = ended.id offset 0)
),
wrong as materialized (
  select id, format('job %s has ended %s times', id, count(*)) as what from twice group by id having count(*) > 1
  union all
  select distinct id, format('job %s has ended, but is still in its queue', id) from queued
)
select
  (select count(distinct id) from ended)::integer as checked,
  (select count(*) from wrong)::integer as wrong,
  (select json_agg(what) from (select * from wrong order by id, what limit 20) as first) as facts

-- name: one_run
-- Each of a schedule's latest ticks has exactly one run, or exactly one recorded reason for having no run. Live instances have taken over dead
-- instances' runs. Uses the indexes tick_pkey, tick_active and gap_pkey.
with planned as materialized (
  select key, namespace, name, next_at, paused_at from holdfast.schedule order by key limit 500
),
ticked as materialized (
  select planned.key, tick.at
  from planned
  cross join lateral (
    select at from holdfast.tick where schedule = planned.key and not extra order by at desc limit 50
  ) as tick
),
missing as materialized (
  select planned.key, gap.first_at, gap.last_at, gap.ticks
  from planned
  cross join lateral (
    select first_at, last_at, ticks from holdfast.gap where schedule = planned.key order by first_at desc limit 20
  ) as gap
),
under_way as materialized (
  select planned.key, tick.at, tick.session
  from planned
  join holdfast.tick on tick.schedule = planned.key and state in ('running', 'waiting') and state = 'running'
),
member as materialized (
  select schedule as key, session, since from holdfast.schedule_member where schedule in (select key from planned)
),
presence as materialized (
  select session, holdfast.is_present(session) as present
  from (select session from under_way union select session from member) as sessions
),
wrong as materialized (
  select key, format('its tick of %s has both a run and a reason for having none', at) as what
  from ticked
  join missing using (key)
  where at between first_at and last_at
  union all
  select key, format('its ticks from %s on have two reasons for having no run', first_at)
  from (select *, lag(last_at) over (partition by key order by first_at) as before from missing) as in_order
  where first_at <= before
  union all
  select key, format('its run of %s belongs to session %s, which has ended', at, session)
  from under_way
  where session in (select session from presence where not present)
  union all
  select key, format('its tick of %s has neither a run nor a reason for having none', next_at)
  from planned
  where paused_at is null
    and next_at < clock_timestamp() - interval '1 minute'
    and key in (
      select key
      from member
      join presence using (session)
      where present
        and since < clock_timestamp() - interval '1 minute'
    )
)
select
  ((select count(*) from ticked) + (select coalesce(sum(ticks), 0) from missing))::integer as checked,
  (select count(*) from wrong)::integer as wrong,
  (
    select json_agg(format('%s: %s', name, what))
    from (select * from wrong join planned using (key) order by name, what limit 20) as first
  ) as facts

-- name: one_answer
-- Each key exists exactly once. A finished delivery has a result, and a running delivery has none. Checks the deliveries that expire last.
-- Uses the index delivery_expires_at.
with latest as materialized (
  select namespace, key, state, started_at, finished_at from holdfast.delivery order by expires_at desc limit 5000
),
wrong as materialized (
  select key, format('it exists %s times', count(*)) as what from latest group by namespace, key having count(*) > 1
  union all
  select key, 'it has a result without a time' from latest where state <> 'in-flight' and finished_at is null
  union all
  select key, 'it is in flight, but has a result' from latest where state = 'in-flight' and finished_at is not null
  union all
  select key, 'its result is older than its run' from latest where finished_at < started_at
)
select
  (select count(*) from latest)::integer as checked,
  (select count(*) from wrong)::integer as wrong,
  (select json_agg(format('%s: %s', key, what)) from (select * from wrong order by key, what limit 20) as first) as facts

-- name: permits_kept
-- The total weight of the permits that live instances hold does not exceed the largest maximum passed for the limit.
with granted as materialized (
  select key, session, weight, max from holdfast.permit where fence is not null and weight > 0 limit 20000
),
presence as materialized (
  select session, holdfast.is_present(session) as present from (select distinct session from granted offset 0) as sessions
),
in_use as materialized (
  select key, sum(weight) as used, max(max) as allowed
  from granted
  where session in (select session from presence where present)
  group by key
),
wrong as materialized (
  select coalesce(limit_state.name, 'key ' || key) as what, used, allowed
  from in_use
  left join holdfast.limit_state using (key)
  where used > allowed
)
select
  (select count(*) from in_use)::integer as checked,
  (select count(*) from wrong)::integer as wrong,
  (select json_agg(format('%s: more than %s permits are in use', what, allowed)) from (select * from wrong order by what limit 20) as first) as facts

-- name: one_record
-- Each step of the newest jobs exists once. After a step was recorded with a fencing token, no step is recorded with a
-- smaller token, because a smaller token belongs to a worker that has lost the job. Each received event belongs to one
-- recorded step. Uses the indexes job_step_pkey and job_event_pkey.
with recorded as materialized (
  select job, name, fence, ended_at
  from (select * from holdfast.job_step order by job desc limit 5000) as latest
  where ended_at is not null
),
received as materialized (
  select job, number, step
  from (select * from holdfast.job_event order by job desc limit 5000) as latest
  where step is not null
),
wrong as materialized (
  select job, format('step %s of job %s is recorded %s times', name, job, count(*)) as what
  from recorded
  group by job, name
  having count(*) > 1
  union all
  select job, format('step %s of job %s was recorded with fence %s, after fence %s had recorded a step', name, job, fence, fence_before)
  from (
    select
      *,
      max(fence) over (
        partition by job order by ended_at range between unbounded preceding and interval '1 second' preceding
      ) as fence_before
    from recorded
  ) as in_order
  where fence < fence_before
  union all
  select job, format('step %s of job %s has received %s events', step, job, count(*))
  from received
  group by job, step
  having count(*) > 1
  union all
  select job, format('event %s of job %s was received by step %s, which is not recorded', number, job, step)
  from received
  where not exists (
    select
    from holdfast.job_step
    where job_step.job = received.job
      and job_step.name = received.step
      and job_step.ended_at is not null
    offset 0
  )
)
select
  (select count(*) from recorded)::integer as checked,
  (select count(*) from wrong)::integer as wrong,
  (select json_agg(what) from (select * from wrong order by job, what limit 20) as first) as facts
