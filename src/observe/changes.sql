-- Read-only statement about what has changed. Returns one JSON document.

-- name: changes
-- Returns the latest $3 changes of the kinds $4 (null for all) in a namespace ($1, or null for all) in the last $2
-- hours. Reads at most $5 rows for each kind of change, each queue and each schedule. Instances that opened or ended
-- within the same minute are combined into one change. Failed jobs of one kind, and failed runs of one schedule, are
-- combined if the time between two failures is at most five minutes. An instance that opens is a new deployment if its
-- version differs from the version of the instance that opened before it, and no open instance has its version. Omits
-- instances that were open for less than ten seconds, such as commands. Uses the indexes instance_name_opened_at,
-- instance_name_gone_at, term_ended_at, job_stopped_state, tick_not_done, gap_pkey, schedule_rule_pkey and audit_at.
with span as materialized (
  select now, now - make_interval(secs => $2::float8 * 3600) as from_at from (select clock_timestamp() as now offset 0) as clock
),
opened as materialized (
  select known.*, coalesce(instance.session, 0) as session
  from (
    select *
    from holdfast.instance_name
    where opened_at > (select from_at from span)
      and ($1::text is null or namespace = $1)
      and (gone_at is null or ending = 'lost' or gone_at - opened_at > interval '10 seconds')
    order by opened_at desc
    limit $5::integer
  ) as known
  left join holdfast.instance using (id)
),
ended as materialized (
  select *
  from holdfast.instance_name
  where gone_at > (select from_at from span)
    and ending is not null
    and ($1::text is null or namespace = $1)
    and (ending = 'lost' or gone_at - opened_at > interval '10 seconds')
  order by gone_at desc
  limit $5::integer
),
stopped as materialized (
  select
    queue.namespace, h.*,
    lag(h.ended_at) over (partition by h.queue, h.kind order by h.ended_at) as before
  from holdfast.queue
  cross join lateral (
    select queue, id, kind, ended_at, error
    from holdfast.job_stopped
    where job_stopped.queue = queue.key
      and state = 'buried'
      and ended_at > (select from_at from span)
    order by id desc
    limit $5::integer
  ) as h
  where $1::text is null
    or namespace = $1
),
burst as materialized (
  select *, count(*) filter (where before is null or ended_at - before > interval '5 minutes') over (partition by queue, kind order by ended_at) as number
  from stopped
),
failed_run as materialized (
  select s.namespace, s.name, tick.*, lag(tick.ended_at) over (partition by s.key order by tick.ended_at) as before
  from holdfast.schedule as s
  cross join lateral (
    select schedule, ended_at, error, instance
    from holdfast.tick
    where tick.schedule = s.key
      and tick.state in ('failed', 'broken')
    order by at desc
    limit $5::integer
  ) as tick
  where tick.ended_at > (select from_at from span)
    and ($1::text is null or s.namespace = $1)
),
run_burst as materialized (
  select *, count(*) filter (where before is null or ended_at - before > interval '5 minutes') over (partition by schedule order by ended_at) as number
  from failed_run
),
-- An instance records a new term within a minute. Until then, only the table election contains the new leader.
led as (
  select namespace, label as name, term.fence, term.began_at as at, term.instance, term.instance_name
  from (
    select *
    from holdfast.term
    where began_at > (select from_at from span)
      and (ended_at is null or ended_at > (select from_at from span))
  ) as term
  join holdfast.name using (key)
  where label like 'election/%'
  union all
  select namespace, 'election/' || name, term, since, instance, null
  from holdfast.election
  where since > (select from_at from span)
    and not exists (
      select from holdfast.term where term.key = holdfast.lock_key(namespace, 'election/' || name) and term.fence = election.term
    )
),
change as (
  select
    case ending when 'lost' then 'instances-lost' when 'drained' then 'instances-drained' else 'instances-closed' end as kind,
    max(gone_at) as at, namespace, (array_agg(name order by gone_at desc))[1:3] as names, count(*) as count, null::text as detail,
    null::text as error_name, (array_agg(id order by gone_at desc))[1] as instance, null::bigint as job
  from ended
  group by namespace, ending, date_trunc('minute', gone_at)
  union all
  select
    'instances-joined', max(opened_at), namespace, (array_agg(name order by opened_at desc))[1:3], count(*), null, null,
    (array_agg(id order by opened_at desc))[1], null
  from opened
  group by namespace, date_trunc('minute', opened_at)
  union all
  select 'deployed', opened_at, namespace, array[app_version], 1, null, null, id, null
  from opened
  where app_version is not null
    and app_version is distinct from (
      select previous.app_version
      from holdfast.instance_name as previous
      where previous.namespace = opened.namespace
        and previous.app_version is not null
        and previous.opened_at < opened.opened_at
      order by previous.opened_at desc
      limit 1
    )
    and not exists (
      select
      from holdfast.instance_name as other
      where other.namespace = opened.namespace
        and other.app_version = opened.app_version
        and other.opened_at < opened.opened_at
        and (other.gone_at is null or other.gone_at > opened.opened_at)
    )
  union all
  select
    'instance-reconnected', epoch_since, namespace, array[name], 1, format('%s in total', reconnects), null, id, null
  from holdfast.instance
  where reconnects > 0
    and epoch_since > (select from_at from span)
    and ($1::text is null or namespace = $1)
  union all
  select 'leader-changed', at, namespace, array[substr(name, 10)], 1, null, null, instance, null
  from led
  where $1::text is null
    or namespace = $1
  union all
  select
    case when rule.is_first then 'schedule-added' else 'schedule-changed' end, rule.since, s.namespace, array[s.name], 1, rule.rule, null, null, null
  from holdfast.schedule as s
  cross join lateral (
    select
      since, rule,
      not exists (select from holdfast.schedule_rule as earlier where earlier.schedule = s.key and earlier.since < changed.since) as is_first
    from holdfast.schedule_rule as changed
    where changed.schedule = s.key
      and changed.since > (select from_at from span)
    order by since desc
    limit 10
  ) as rule
  where $1::text is null
    or s.namespace = $1
  union all
  select 'schedule-paused', paused_at, namespace, array[name], 1, null, null, null, null
  from holdfast.schedule
  where paused_at > (select from_at from span)
    and ($1::text is null or namespace = $1)
  union all
  select
    'schedule-failed', max(ended_at), namespace, array[name], count(*), (array_agg(error ->> 'message' order by ended_at desc))[1],
    (array_agg(error ->> 'name' order by ended_at desc))[1], (array_agg(instance order by ended_at desc))[1], null
  from run_burst
  group by namespace, name, number
  union all
  select 'schedule-skipped', gap.last_at, s.namespace, array[s.name], gap.ticks, gap.reason, null, null, null
  from holdfast.schedule as s
  cross join lateral (
    select *
    from holdfast.gap
    where gap.schedule = s.key
    order by first_at desc
    limit $5::integer
  ) as gap
  where gap.reason <> 'paused'
    and gap.last_at > (select from_at from span)
    and ($1::text is null or s.namespace = $1)
  union all
  select 'queue-added', added_at, namespace, array[name], 1, null, null, null, null
  from holdfast.queue
  where added_at > (select from_at from span)
    and ($1::text is null or namespace = $1)
  union all
  select 'queue-paused', paused_at, namespace, array[name], 1, null, null, null, null
  from holdfast.queue
  where paused_at > (select from_at from span)
    and ($1::text is null or namespace = $1)
  union all
  select
    'jobs-failed', max(ended_at), namespace, array[kind], count(*), (array_agg(error ->> 'message' order by ended_at desc))[1],
    (array_agg(error ->> 'name' order by ended_at desc))[1], null, (array_agg(id order by ended_at desc))[1]
  from burst
  group by namespace, kind, number
  union all
  select 'server-restarted', began_at, null, '{}', 1, null, null, null, null
  from holdfast.server_generation
  where began_at > (select from_at from span)
    -- The first instance begins the first generation.
    and generation > 1
  union all
  select
    'act', at, params ->> 'namespace', array[visitor], 1, act || ' ' || subject || coalesce(': ' || reason, ''),
    case when error is not null then 'failed' when ended_at is null then 'unfinished' end, null, null
  from (
    select *
    from holdfast.audit
    where at > (select from_at from span)
      and ($1::text is null or coalesce(params ->> 'namespace', $1) = $1)
    order by at desc
    limit $5::integer
  ) as audit
),
latest as materialized (
  select * from change where $4::text[] is null or kind = any($4) order by at desc limit $3::integer
)
select json_build_object(
  'fromMs', (select extract(epoch from from_at) * 1000 from span),
  'nowMs', (select extract(epoch from now) * 1000 from span),
  'rows', (
    select json_agg(
      json_build_object(
        'kind', kind, 'at', extract(epoch from at) * 1000, 'namespace', latest.namespace, 'subjects', latest.names, 'count', count,
        'detail', left(detail, 1000), 'errorName', left(error_name, 200), 'instance', instance, 'instanceName', known.name, 'job', job
      )
      order by at desc
    )
    from latest
    left join holdfast.instance_name as known on known.id = latest.instance
  )
) as answer
