create or replace function holdfast.sample_names(keys bigint[], held integer[], waited integer[], age_ms float8) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    moment constant timestamptz := clock_timestamp() - make_interval(secs => age_ms / 1000);
    this_hour constant timestamptz := date_trunc('hour', moment, 'UTC');
    at constant integer := extract(minute from moment at time zone 'UTC')::integer + 1;
    nothing constant smallint[] := array_fill(0::smallint, '{60}');
    -- Number of names that can still be added in this hour. For names that calls waited for, the limit is 1000 higher.
    room constant integer := 1000 - (select count(*) from (select from holdfast.sample where hour = this_hour limit 2000) as counted);
  begin
    insert into holdfast.sample as known (hour, key, held_total, waited_total, held, waited)
    select
      this_hour,
      key,
      new_held,
      new_waited,
      nothing[:at - 1] || new_held::smallint || nothing[at + 1:],
      case when new_waited > 0 then nothing[:at - 1] || new_waited::smallint || nothing[at + 1:] end
    from (
      select
        added.*,
        is_known,
        row_number() over (partition by is_known order by new_waited desc, new_held desc, key) as place
      from unnest(keys, held, waited) as added (key, new_held, new_waited)
      cross join lateral (
        select exists (select from holdfast.sample where sample.hour = this_hour and sample.key = added.key) as is_known
      ) as checked
    ) as added
    where is_known
      or place <= room + case when new_waited > 0 then 1000 else 0 end
    order by key
    on conflict (hour, key) do update
    set held_total = known.held_total + excluded.held_total,
        waited_total = known.waited_total + excluded.waited_total,
        held = known.held[:at - 1] || least(32767, known.held[at] + excluded.held_total)::smallint || known.held[at + 1:],
        waited = case
          when excluded.waited is null then known.waited
          when known.waited is null then excluded.waited
          else known.waited[:at - 1] || least(32767, known.waited[at] + excluded.waited_total)::smallint || known.waited[at + 1:]
        end;
  end
  $$;
comment on function holdfast.sample_names(bigint[], integer[], integer[], float8) is
  'Adds one instance''s samples to the minute that was age_ms ago. A sample contains the time for which a name was held and the time for which calls waited for it, in tenths of a second, each at most 32767. Ignores new names beyond 1000 per hour, and beyond 2000 for names with waits.';

create or replace function holdfast.term_end(key bigint, fence bigint)
  returns table (end_at timestamptz, end_by timestamptz, reason text)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    known holdfast.term;
    leased_until timestamptz;
    next_at timestamptz;
    seen_at timestamptz;
  begin
    select term.* into known from holdfast.term where term.key = term_end.key and term.fence = term_end.fence;
    if known.kind = 'lease' then
      select expires_at into leased_until from holdfast.lease where lease.key = term_end.key and lease.fence = term_end.fence;
      if leased_until is not null then
        return query
        select leased_until, null::timestamptz, 'expired'
        where leased_until <= clock_timestamp();
        return;
      end if;
    elsif exists (select from holdfast.instance where id = known.instance and holdfast.is_present(session)) then
      return;
    end if;
    if known.mode = 'exclusive' then
      select began_at into next_at
      from holdfast.term
      where term.key = term_end.key
        and term.fence > term_end.fence
      order by term.fence
      limit 1;
    end if;
    -- Finds the last minute in which the name was held. If the name was held for only part of that minute, assumes that the hold ended as
    -- early as possible in that minute.
    select hour + make_interval(mins => minute::integer - 1, secs => least(tenths, 600) / 10.0) into seen_at
    from generate_series(
      date_trunc('hour', clock_timestamp(), 'UTC'),
      greatest(date_trunc('hour', known.began_at, 'UTC'), clock_timestamp() - interval '49 hours'),
      '-1 hour'
    ) as past (at)
    join holdfast.sample on sample.hour = past.at and sample.key = term_end.key
    cross join unnest(held) with ordinality as minutes_of_hour (tenths, minute)
    where tenths > 0
      and (next_at is null or hour + make_interval(mins => minute::integer) <= next_at)
    order by 1 desc
    limit 1;
    return query
    select greatest(known.began_at, seen_at), least(next_at, clock_timestamp()), 'gone';
  end
  $$;
comment on function holdfast.term_end(bigint, bigint) is
  'Returns the end of a term without a recorded end, or no row if the term still lasts: when it ended, the latest possible end if the exact time is unknown, and the reason. A lease ends when it expires. A lock ends with its instance: after the last sample that shows the lock as held, and before the next term.';

create or replace function holdfast.samples_largest_numbers() returns table (sequence regclass, largest bigint)
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select 'holdfast.fence'::regclass, max(fence)
    from (select fence from holdfast.term order by ended_at desc limit 1000) as latest
  $$;
comment on function holdfast.samples_largest_numbers() is
  'Returns the largest number from each sequence in this module''s tables. See sequence_positions().';

create or replace function holdfast.sample_sweep(max_days integer, max_terms integer, max_of_name integer) returns integer
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  #variable_conflict use_column
  declare
    ended integer;
  begin
    -- Uses the indexes sample_pkey, term_instance, term_ended_at, lease_pkey and term_pkey.
    with old_samples as (
      delete from holdfast.sample
      where (hour, key) in (
        select hour, key
        from holdfast.sample
        where hour < clock_timestamp() - interval '49 hours'
        order by hour
        limit 10000
      )
    ),
    holder as materialized (
      select
        instance as id,
        exists (select from holdfast.instance i where i.id = open.instance and holdfast.is_present(i.session)) as is_present
      from (select distinct instance from holdfast.term where ended_at is null) as open
    ),
    silent as materialized (
      select term.key, term.fence
      from holder
      join holdfast.term on term.instance = holder.id and term.ended_at is null
      where case term.kind
        when 'lock' then not is_present
        else not exists (
          select
          from holdfast.lease
          where lease.key = term.key
            and lease.fence = term.fence
            and lease.expires_at > clock_timestamp()
        )
      end
      limit 1000
    ),
    gone as (
      update holdfast.term
      set ended_at = end_at,
          gone_by = end_by,
          why = reason
      from silent
      cross join lateral holdfast.term_end(silent.key, silent.fence)
      where term.key = silent.key
        and term.fence = silent.fence
        and term.ended_at is null
      returning term.key
    ),
    oldest as materialized (
      select greatest(
        clock_timestamp() - make_interval(days => max_days),
        (select ended_at from holdfast.term where ended_at is not null order by ended_at desc offset max_terms limit 1)
      ) as at
    ),
    old_terms as (
      delete from holdfast.term
      where (key, fence) in (
        select key, fence
        from holdfast.term
        where ended_at < (select at from oldest)
        order by ended_at
        limit 10000
      )
    ),
    crowded as (
      delete from holdfast.term
      where (key, fence) in (
        select key, fence
        from (
          select key, fence, ended_at, row_number() over (partition by key order by fence desc) as place
          from holdfast.term
        ) as ranked
        where place > max_of_name
          and ended_at is not null
        limit 10000
      )
    )
    select count(*) into ended from gone;
    return ended;
  end
  $$;
comment on function holdfast.sample_sweep(integer, integer, integer) is
  'Records the end of each term whose instance is gone, and returns the number of these terms. Removes samples after two days and terms after max_days days. Also removes terms beyond the latest max_terms in total and the latest max_of_name per name. Each part processes a bounded number of rows.';
