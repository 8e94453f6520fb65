-- What the dashboard itself asks, beside its views.

-- name: database_info
-- The server, the time by its clock, and the namespaces that somebody uses.
select
  current_setting('server_version') as server,
  (extract(epoch from clock_timestamp()) * 1000)::float8 as now_ms,
  array(
    select namespace
    from (
      select namespace from holdfast.instance
      union
      select namespace from holdfast.schedule
      union
      select namespace from holdfast.queue
    ) as used
    order by namespace
    limit 200
  ) as namespaces

-- name: clock
-- The time, by the database's clock.
select (extract(epoch from clock_timestamp()) * 1000)::float8 as now_ms
