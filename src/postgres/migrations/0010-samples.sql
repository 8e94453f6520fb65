-- Samples: what instances write down, once a minute, of the names that they hold and wait for. For people who look later; nothing depends on it.

create table holdfast.sample (
  hour timestamptz not null,
  key bigint not null,
  held_total integer not null,
  waited_total integer not null,
  held smallint[] not null,
  waited smallint[],
  primary key (hour, key)
) with (
  -- Each minute writes each row of the hour anew beside its old version, and makes no index entry while the page has room for both.
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0.1,
  autovacuum_vacuum_cost_delay = 0
);
comment on table holdfast.sample is
  'How long each name was held and waited for, minute by minute, over the last two days: a row for each name and hour, to which instances add. Only what was told: by locks, leases and elections of this package, and at most so many names an hour.';
comment on column holdfast.sample.hour is 'The hour, which begins with it (UTC).';
comment on column holdfast.sample.key is 'The key of the name.';
comment on column holdfast.sample.held_total is 'The sum of held.';
comment on column holdfast.sample.waited_total is 'The sum of waited.';
comment on column holdfast.sample.held is
  'For how many tenths of a second it was held, in each of the sixty minutes. Of several instances that share it the sum, so that it may be more than a minute.';
comment on column holdfast.sample.waited is
  'For how many tenths of a second calls waited for it, in each minute, all calls together. Null: nobody did in this hour.';

create table holdfast.term (
  key bigint not null,
  fence bigint not null,
  kind text not null check (kind in ('lock', 'lease')),
  mode text not null check (mode in ('exclusive', 'shared')),
  instance text not null,
  host text,
  os_pid integer,
  began_at timestamptz not null,
  ended_at timestamptz,
  gone_by timestamptz,
  why text check (
    why in (
      'released', 'asked', 'drained', 'closed', 'stepped-down', 'replaced', 'not-eligible', 'ended', 'taken', 'expired',
      'restarted', 'lost', 'gone'
    )
  ),
  primary key (key, fence)
) with (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
comment on table holdfast.term is
  'Who held a name from when to when, and why it ended. Leaderships, and locks and leases that were held for a second, told by their instances once a minute. Of one whose instance cannot tell any more, what is known.';
comment on column holdfast.term.key is 'The key of the name.';
comment on column holdfast.term.fence is 'The fence of the grant.';
comment on column holdfast.term.kind is 'How it was held: as a lock, or by lease.';
comment on column holdfast.term.mode is 'exclusive or shared.';
comment on column holdfast.term.instance is 'The instance that held it.';
comment on column holdfast.term.host is 'Its machine; kept here, because the instance is forgotten when it has ended.';
comment on column holdfast.term.os_pid is 'Its process id on that machine.';
comment on column holdfast.term.began_at is 'When it was granted.';
comment on column holdfast.term.ended_at is 'When it ended; null while it lasts, or nobody has noticed its end. Of one that is gone: when it was last known to be held.';
comment on column holdfast.term.gone_by is 'Of one that is gone: when it was known to have ended. In between nobody knows.';
comment on column holdfast.term.why is
  'released: its work was done. asked: an operator had asked for it. drained, closed: so was its instance. stepped-down, replaced, not-eligible: the leader was asked to, made room for a preferred one, or might not lead any more. ended: an operator ended its session. taken: an operator expired the lease, or somebody released it by its token. expired: the lease was not renewed. restarted: the server was. lost: the instance could not reach the database in time. gone: the instance ended without a word.';
create index term_instance on holdfast.term (instance) where ended_at is null;
create index term_ended_at on holdfast.term (ended_at);

create function holdfast.sample_names(keys bigint[], held integer[], waited integer[], age_ms float8) returns void
  language plpgsql
  -- One plan, by index, whatever the table looked like when it was made.
  set plan_cache_mode = force_generic_plan
  set search_path = pg_catalog, pg_temp
  set jit = off
  as $$
  #variable_conflict use_column
  declare
    moment constant timestamptz := clock_timestamp() - make_interval(secs => age_ms / 1000);
    this_hour constant timestamptz := date_trunc('hour', moment, 'UTC');
    at constant integer := extract(minute from moment at time zone 'UTC')::integer + 1;
    nothing constant smallint[] := array_fill(0::smallint, '{60}');
    -- So many names an hour, and as many again that are waited for.
    room constant integer := 1000 - (select count(*) from (select from holdfast.sample where hour = this_hour limit 2000) as counted);
  begin
    insert into holdfast.sample as known (hour, key, held_total, waited_total, held, waited)
    select
      this_hour,
      key,
      told_held,
      told_waited,
      nothing[:at - 1] || told_held::smallint || nothing[at + 1:],
      case when told_waited > 0 then nothing[:at - 1] || told_waited::smallint || nothing[at + 1:] end
    from (
      select
        told.*,
        is_known,
        row_number() over (partition by is_known order by told_waited desc, told_held desc, key) as place
      from unnest(keys, held, waited) as told (key, told_held, told_waited)
      cross join lateral (
        select exists (select from holdfast.sample where sample.hour = this_hour and sample.key = told.key) as is_known
      ) as looked
    ) as told
    where is_known
      or place <= room + case when told_waited > 0 then 1000 else 0 end
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
  'Adds to the samples of the minute so long ago (ms): for how many tenths of a second each name was held and waited for by one instance, at most 32767 each. Beyond 1000 names an hour, new ones are left out; beyond 2000 also those that are waited for.';

create function holdfast.term_over(key bigint, fence bigint)
  returns table (over_at timestamptz, surely_by timestamptz, because text)
  language plpgsql
  -- One plan, by index, whatever the tables looked like when it was made.
  set plan_cache_mode = force_generic_plan
  set search_path = pg_catalog, pg_temp
  set jit = off
  as $$
  declare
    told holdfast.term;
    leased_until timestamptz;
    next_at timestamptz;
    seen_at timestamptz;
  begin
    select term.* into told from holdfast.term where term.key = term_over.key and term.fence = term_over.fence;
    if told.kind = 'lease' then
      select expires_at into leased_until from holdfast.lease where lease.key = term_over.key and lease.fence = term_over.fence;
      if leased_until is not null then
        return query
        select leased_until, null::timestamptz, 'expired'
        where leased_until <= clock_timestamp();
        return;
      end if;
    elsif exists (select from holdfast.instance where id = told.instance and holdfast.is_present(session)) then
      return;
    end if;
    if told.mode = 'exclusive' then
      select began_at into next_at
      from holdfast.term
      where term.key = term_over.key
        and term.fence > term_over.fence
      order by term.fence
      limit 1;
    end if;
    -- In a minute for which it was held in part, no later than that after its beginning.
    select hour + make_interval(mins => minute::integer - 1, secs => least(tenths, 600) / 10.0) into seen_at
    from generate_series(
      date_trunc('hour', clock_timestamp(), 'UTC'),
      greatest(date_trunc('hour', told.began_at, 'UTC'), clock_timestamp() - interval '49 hours'),
      '-1 hour'
    ) as past (at)
    join holdfast.sample on sample.hour = past.at and sample.key = term_over.key
    cross join unnest(held) with ordinality as told_of (tenths, minute)
    where tenths > 0
      and (next_at is null or hour + make_interval(mins => minute::integer) <= next_at)
    order by 1 desc
    limit 1;
    return query
    select greatest(told.began_at, seen_at), least(next_at, clock_timestamp()), 'gone';
  end
  $$;
comment on function holdfast.term_over(bigint, bigint) is
  'Whether a term of which no end was told is over: no row while it lasts; else when it ended, by when at the latest if that is not known, and why. A lease says so itself; a lock ends with its instance, no later than the next term begins, and not before the last moment at which the name was surely held, as far as samples tell.';
