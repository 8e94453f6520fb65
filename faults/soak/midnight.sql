-- Simulates midnight. Rows that are older than one simulated day (soak.day) become old enough for cleanup, each row once. The job tables' partitions
-- become one day older. Holdfast's own code then does the cleanup.
do $$
  declare
    made_before constant timestamptz := clock_timestamp() - current_setting('soak.day')::interval;
    part record;
  begin
    update holdfast.name set used_at = used_at - interval '31 days'
    where used_at between clock_timestamp() - interval '15 days' and made_before;
    update holdfast.fence_guard set used_on = used_on - 40
    where used_on > current_date - 15;
    update holdfast.election set since = since - interval '31 days'
    where since between clock_timestamp() - interval '15 days' and made_before;
    update holdfast.lease set expires_at = expires_at - interval '2 hours'
    where expires_at between clock_timestamp() - interval '1 hour' and made_before;
    update holdfast.delivery set expires_at = expires_at - interval '1 day'
    where state <> 'in-flight';
    update holdfast.unique_job set expires_at = expires_at - interval '1 day'
    where expires_at is not null;
    update holdfast.share_done set done_at = done_at - interval '8 days'
    where done_at between clock_timestamp() - interval '7 days' and made_before;
    update holdfast.term set began_at = began_at - interval '15 days', ended_at = ended_at - interval '15 days'
    where ended_at between clock_timestamp() - interval '14 days' and made_before;
    -- Moves further each night, because the previous night's rows may still exist.
    update holdfast.sample set hour = hour - interval '50 hours' * current_setting('soak.night')::integer
    where hour > clock_timestamp() - interval '49 hours';
    with aged as (
      update holdfast.tick set at = at - interval '31 days'
      where at between clock_timestamp() - interval '15 days' and made_before and state not in ('running', 'waiting')
      returning schedule, at, extra
    )
    update holdfast.tick_log set at = aged.at
    from aged
    where tick_log.schedule = aged.schedule and tick_log.at = aged.at + interval '31 days' and tick_log.extra = aged.extra;
    update holdfast.gap set first_at = first_at - interval '31 days', last_at = last_at - interval '31 days'
    where last_at between clock_timestamp() - interval '15 days' and made_before;

    update holdfast.job_note set noted_at = noted_at - interval '1 day';
    update holdfast.job_removed set removed_at = removed_at - interval '1 day';

    -- A table's partitions move in ascending order, so each finds its new place empty.
    set local timezone to 'UTC';
    for part in
      select
        parent, relname as name, time_column,
        bounds[1]::date - 1 as from_day, bounds[2]::date - 1 as to_day,
        parent || '_' || to_char(bounds[1]::date - 1, 'YYYYMMDD') as new_name
      from (values ('job', 'entered_at'), ('job_end', 'ended_at'), ('job_stopped', 'ended_at')) as of_jobs (parent, time_column)
      join pg_inherits on inhparent = format('holdfast.%I', parent)::regclass
      join pg_class on pg_class.oid = inhrelid
      cross join lateral regexp_match(
        pg_get_expr(relpartbound, pg_class.oid), 'FROM \(''([^'']+)''\) TO \(''([^'']+)''\)'
      ) as bounds
      where bounds is not null
      order by parent, from_day
    loop
      execute format('alter table holdfast.%I detach partition holdfast.%I', part.parent, part.name);
      execute format(
        'alter table holdfast.%1$I alter column %2$I type timestamptz using %2$I - interval ''1 day''', part.name, part.time_column
      );
      execute format('alter table holdfast.%I rename to %I', part.name, part.new_name);
      -- Holdfast refers to this index by its name.
      if part.parent = 'job_stopped' then
        execute format('alter index holdfast.%I rename to %I', part.name || '_id_ended_at_idx', part.new_name || '_id_ended_at_idx');
      end if;
      execute format(
        'alter table holdfast.%I attach partition holdfast.%I for values from (%L) to (%L)',
        part.parent, part.new_name, part.from_day::timestamptz, part.to_day::timestamptz
      );
    end loop;
    perform holdfast.job_roll_partitions(1);
  end
$$
