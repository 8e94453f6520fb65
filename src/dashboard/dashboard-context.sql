-- The dashboard's own statements. The views use the observer's statements.

-- name: database_info
-- Returns the server version, the database clock's time, and the namespaces in use.
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
-- Returns the database clock's time.
select (extract(epoch from clock_timestamp()) * 1000)::float8 as now_ms
