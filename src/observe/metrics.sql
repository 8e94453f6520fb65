-- Metrics for monitoring. Each count is bounded.

-- name: schedules
-- Returns at most $2 schedules in a namespace ($1), without stored schedules, of which there can be 100,000. For each
-- schedule, returns how long the next tick has been overdue, and the latest tick whose run succeeded. Extra runs do not
-- count. Uses the indexes schedule_named, tick_done and tick_active.
select
  name,
  paused_at is not null as paused,
  case
    when paused_at is null then greatest(0, extract(epoch from clock_timestamp() - next_at) * 1000)
  end::float8 as "lateMs",
  (
    select (extract(epoch from at) * 1000)::float8
    from holdfast.tick
    where tick.schedule = schedule.key
      and tick.state = 'done'
      and not tick.extra
    order by at desc
    limit 1
  ) as "lastSuccess",
  (
    select count(*)
    from (
      select
      from holdfast.tick
      where tick.schedule = schedule.key
        and tick.state in ('running', 'waiting')
        and tick.state = 'running'
      limit $2
    ) as running
  )::integer as running
from holdfast.schedule
where namespace = $1
  and job_head is null
order by name
limit $2

-- name: in_use
-- Returns the number of leases, of permits, and of calls that are waiting for permits in a namespace ($1). Counts at most $2 leases and $2
-- limits.
select
  (
    select count(*)
    from (
      select
      from holdfast.lease
      join holdfast.name using (key)
      where lease.expires_at > clock_timestamp()
        and lease.token <> ''
        and name.namespace = $1
      limit $2
    ) as leased
  )::integer as leases,
  coalesce(sum(in_use), 0)::float8 as permits,
  coalesce(sum(waiting), 0)::float8 as waiting
from (
  select in_use, waiting
  from holdfast.limit_state
  where namespace = $1
  limit $2
) as limits
