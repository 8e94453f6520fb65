-- Read-only statement for the tick timeline.

-- name: tick_timeline
-- Returns the ticks of schedules ($1, their keys) since a time ($3, in ms), in $5 steps of $4 ms. Reads each schedule's latest $6 finished ticks and
-- its latest 20 current runs. For a dense schedule ($2), reads $7 done ticks per step and the latest $6 failures instead of the latest $6 finished
-- ticks. Combines runs with the same step, instance and state into one row. Uses the indexes tick_pkey, tick_active, tick_not_done and gap_pkey.
with requested as materialized (
  select key, is_dense
  from unnest($1::text::bigint[], $2::text::boolean[]) as requested (key, is_dense)
),
span as materialized (
  select to_timestamp($3::float8 / 1000) as since, make_interval(secs => $4::float8 / 1000) as step
),
looked as materialized (
  select found.*
  from requested
  cross join span
  cross join lateral (
    select schedule, at, extra, state, session, instance, attempt, started_at, ended_at
    from holdfast.tick
    where schedule = requested.key
      and state not in ('running', 'waiting')
      and at >= since
    order by at desc
    limit (select $6::integer)
  ) as found
  where not is_dense
  union all
  select found.*
  from requested
  cross join span
  cross join generate_series(0, $5::integer - 1) as number
  cross join lateral (
    select schedule, at, extra, state, session, instance, attempt, started_at, ended_at
    from holdfast.tick
    where schedule = requested.key
      and state = 'done'
      and at >= since + number * step
      and at < since + (number + 1) * step
    order by at desc
    limit (select $7::integer)
  ) as found
  where is_dense
  union all
  select found.*
  from requested
  cross join span
  cross join lateral (
    select schedule, at, extra, state, session, instance, attempt, started_at, ended_at
    from holdfast.tick
    where schedule = requested.key
      and state in ('failed', 'broken', 'cancelled')
      and at >= since
    order by at desc
    limit (select $6::integer)
  ) as found
  where is_dense
  union all
  select found.*
  from requested
  cross join lateral (
    select schedule, at, extra, state, session, instance, attempt, started_at, ended_at
    from holdfast.tick
    where schedule = requested.key
      and state in ('running', 'waiting')
    order by at desc
    limit 20
  ) as found
),
counted as (
  select
    schedule,
    greatest(-1, floor(extract(epoch from at - since) / extract(epoch from step)))::integer as step,
    instance,
    case when state = 'running' and not holdfast.is_present(session) then 'lost' else state end as state,
    extra,
    at,
    attempt,
    started_at,
    ended_at
  from looked
  cross join span
),
member as materialized (
  select schedule_member.*
  from requested
  join holdfast.schedule_member on schedule_member.schedule = requested.key
),
living as materialized (
  select session
  from (select distinct session from member) as sessions
  where holdfast.is_present(session)
)
select json_build_object(
  'nowMs', extract(epoch from clock_timestamp()) * 1000,
  'runs', coalesce((
    select json_agg(r)
    from (
      select
        schedule::text as key,
        step,
        instance,
        state,
        extra,
        count(*) as n,
        extract(epoch from min(at)) * 1000 as "firstMs",
        extract(epoch from max(at)) * 1000 as "lastMs",
        extract(epoch from max(started_at - at)) * 1000 as "lateMs",
        max(attempt) as attempt,
        extract(epoch from min(started_at)) * 1000 as "startedMs",
        extract(epoch from max(ended_at)) * 1000 as "endedMs"
      from counted
      group by schedule, step, instance, state, extra
      order by schedule, step
    ) as r
  ), '[]'),
  'gaps', coalesce((
    select json_agg(g)
    from (
      select
        requested.key::text,
        extract(epoch from first_at) * 1000 as "firstMs",
        extract(epoch from last_at) * 1000 as "lastMs",
        ticks,
        reason
      from requested
      cross join span
      cross join lateral (
        select * from holdfast.gap where schedule = requested.key order by first_at desc limit (select $6::integer)
      ) as latest
      where last_at >= since
      order by requested.key, first_at
    ) as g
  ), '[]'),
  'members', coalesce((
    select json_agg(m)
    from (
      select schedule::text as key, instance, extract(epoch from since) * 1000 as "sinceMs"
      from member
      join living using (session)
      order by since, instance
      limit 1000
    ) as m
  ), '[]'),
  'instances', coalesce((
    select json_agg(json_build_object('id', id, 'name', name, 'host', host, 'osPid', os_pid))
    from holdfast.instance_name
    where id in (select instance from counted union select instance from member join living using (session))
  ), '[]')
) as answer
