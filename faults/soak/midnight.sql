-- A day passes: what is older than a day of the soak (soak.day) becomes as old as it must be to be swept, each row once, and the
-- history moves one day back. What the sweeping of the product then does is its own affair.
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
    -- Each night further, for the hours of the night before may still be there.
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

    set local timezone to 'UTC';
    for part in
      select relname as name, to_date(right(relname, 8), 'YYYYMMDD') as day
      from pg_class
      join pg_inherits on inhrelid = pg_class.oid
      where inhparent = 'holdfast.job_history'::regclass
        and relname ~ '^job_history_[0-9]{8}$'
        and to_date(right(relname, 8), 'YYYYMMDD') <= current_date
      order by 2
    loop
      execute format('alter table holdfast.job_history detach partition holdfast.%I', part.name);
      execute format(
        'alter table holdfast.%I alter column ended_at type timestamptz using ended_at - interval ''1 day''', part.name
      );
      execute format('alter table holdfast.%I rename to %I', part.name, 'job_history_' || to_char(part.day - 1, 'YYYYMMDD'));
      execute format(
        'alter table holdfast.job_history attach partition holdfast.%I for values from (%L) to (%L)',
        'job_history_' || to_char(part.day - 1, 'YYYYMMDD'), (part.day - 1)::timestamptz, part.day::timestamptz
      );
    end loop;
    perform holdfast.job_roll_partitions(1);
  end
$$
