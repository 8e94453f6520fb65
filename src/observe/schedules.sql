-- Read-only statements about schedules.

-- name: schedules
-- Returns the schedules in a namespace ($1, or null for all) whose name contains a text ($2, or null) or equals a name ($5, or null).
-- Returns their total number, and at most $3 schedules after skipping $4 schedules. Orders the schedules by name or, with $6, by the next
-- tick, with paused schedules last. Uses the indexes schedule_named, schedule_member_pkey, tick_pkey and tick_active.
with found as materialized (
  select
    *,
    row_number() over (
      order by case when $6::boolean then paused_at is not null end, case when $6::boolean then next_at end, namespace, name
    ) as place
  from holdfast.schedule
  where ($1::text is null or namespace = $1)
    and ($2::text is null or strpos(lower(name), lower($2)) > 0)
    and ($5::text is null or name = $5)
),
listed as materialized (
  select * from found order by place limit $3::integer offset $4::integer
),
member as materialized (
  select listed.key, schedule_member.session
  from listed
  join holdfast.schedule_member on schedule_member.schedule = listed.key
),
living as materialized (
  select session
  from (select distinct session from member) as sessions
  where holdfast.is_present(session)
),
counted as materialized (
  select key, count(*) as members
  from member
  join living using (session)
  group by key
)
select json_build_object(
  'count', (select count(*) from found),
  'nowMs', extract(epoch from clock_timestamp()) * 1000,
  'rows', coalesce((
    select json_agg(row)
    from (
      select
        listed.key::text,
        namespace,
        name,
        coalesce(override, rule) as rule,
        override is not null as overridden,
        job_head is not null as stored,
        extract(epoch from paused_at) * 1000 as "pausedAt",
        extract(epoch from next_at) * 1000 as "nextAt",
        coalesce(members, 0) as members,
        (
          select count(*)
          from holdfast.tick
          where tick.schedule = listed.key
            and state in ('running', 'waiting')
            and state = 'running'
        ) as running,
        (
          select json_build_object(
            'tick', extract(epoch from at) * 1000,
            'state', state,
            'extra', extra,
            'instance', instance,
            'instanceName', (select instance_name.name from holdfast.instance_name where instance_name.id = latest.instance),
            'attempt', attempt,
            'lateMs', extract(epoch from started_at - at) * 1000,
            'tookMs', extract(epoch from ended_at - started_at) * 1000,
            'endedMs', extract(epoch from coalesce(ended_at, at)) * 1000
          )
          from (
            select *
            from holdfast.tick
            where tick.schedule = listed.key
            order by at desc
            limit 20
          ) as latest
          where state not in ('running', 'waiting')
          order by at desc
          limit 1
        ) as last
      from listed
      left join counted using (key)
      order by place
    ) as row
  ), '[]')
) as answer

-- name: schedule
-- Returns the schedule with a namespace ($1) and a name ($2): its rule, its members, its earlier rules, and its latest $3 runs and gaps.
-- Uses the indexes schedule_named, tick_pkey and gap_pkey.
select json_build_object(
  'key', key::text,
  'nowMs', extract(epoch from clock_timestamp()) * 1000,
  'rule', coalesce(override, rule),
  'codeRule', rule,
  'overridden', override is not null,
  'stored', job_head is not null,
  'pausedAt', extract(epoch from paused_at) * 1000,
  'settledAt', extract(epoch from settled_at) * 1000,
  'nextAt', extract(epoch from next_at) * 1000,
  'overlap', overlap,
  'missed', missed,
  'catchUp', catch_up,
  'reruns', reruns,
  'job', case
    when job_head is not null then json_build_object(
      'queue', (select queue.name from holdfast.queue where queue.key = (job_head ->> 'queue')::bigint),
      'kind', job_head ->> 'kind'
    )
    else (
      select json_build_object('queue', job_queue, 'kind', job_kind)
      from holdfast.schedule_member
      where schedule = s.key
        and job_kind is not null
        and holdfast.is_present(session)
      order by since desc
      limit 1
    )
  end,
  'members', (
    with member as materialized (
      select * from holdfast.schedule_member where schedule = s.key
    )
    select json_agg(json_build_object(
      'instance', member.instance,
      'instanceName', instance.name,
      'host', host,
      'osPid', os_pid,
      'rule', rule,
      'since', extract(epoch from since) * 1000
    ) order by since, member.instance)
    from member
    left join holdfast.instance_name as instance on instance.id = member.instance
    where holdfast.is_present(member.session)
  ),
  'rules', (
    select json_agg(r)
    from (
      select extract(epoch from since) * 1000 as since, rule
      from holdfast.schedule_rule
      where schedule = s.key
      order by schedule_rule.since desc
      limit 5
    ) as r
  ),
  'runs', (
    select json_agg(r)
    from (
      select
        extract(epoch from at) * 1000 as tick,
        extra,
        -- The state of a dead instance's run is `lost` until a live instance takes the run over.
        case when latest.state = 'running' and not holdfast.is_present(latest.session) then 'lost' else latest.state end as state,
        latest.instance,
        instance.name as "instanceName",
        host,
        os_pid as "osPid",
        fence::text,
        attempt,
        crashes,
        extract(epoch from started_at - at) * 1000 as "lateMs",
        extract(epoch from started_at) * 1000 as "startedAt",
        extract(epoch from ended_at) * 1000 as "endedAt",
        stopping,
        case
          when error ->> 'message' is not null
          then json_build_object('name', coalesce(error ->> 'name', 'Error'), 'message', left(error ->> 'message', 300))
        end as error,
        coalesce((
          select cardinality(lines)
          from holdfast.tick_log
          where tick_log.schedule = s.key
            and tick_log.at = latest.at
            and tick_log.extra = latest.extra
        ), 0) as lines
      from (
        select * from holdfast.tick where schedule = s.key order by at desc limit (select $3::integer)
      ) as latest
      left join holdfast.instance_name as instance on instance.id = latest.instance
      order by at desc
    ) as r
  ),
  'gaps', (
    select json_agg(g)
    from (
      select extract(epoch from first_at) * 1000 as first, extract(epoch from last_at) * 1000 as last, ticks, reason
      from holdfast.gap
      where schedule = s.key
      order by first_at desc
      limit (select $3::integer)
    ) as g
  )
) as answer
from holdfast.schedule s
where namespace = $1
  and name = $2

-- name: run
-- Returns one run's error and log. The parameters are the schedule's namespace ($1) and name ($2), the tick ($3), and whether the
-- run is an extra run ($4). Uses the indexes schedule_named and tick_pkey.
select json_build_object(
  'error', error,
  'log', (
    select array_to_json(lines)
    from holdfast.tick_log
    where tick_log.schedule = tick.schedule
      and tick_log.at = tick.at
      and tick_log.extra = tick.extra
  )
) as answer
from holdfast.schedule s
join holdfast.tick on tick.schedule = s.key
where s.namespace = $1
  and s.name = $2
  and at >= $3::timestamptz
  and at < $3::timestamptz + interval '1 millisecond'
  and extra = $4::boolean
