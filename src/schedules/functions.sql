-- The protocol is described in src/schedules/README.md.

create or replace function holdfast.schedule_record_gap(
  schedule bigint, first_at timestamptz, last_at timestamptz, ticks bigint, reason text, follows timestamptz
) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    update holdfast.gap as g
    set last_at = schedule_record_gap.last_at,
        ticks = g.ticks + schedule_record_gap.ticks
    where g.schedule = schedule_record_gap.schedule
      and g.first_at = (select max(n.first_at) from holdfast.gap n where n.schedule = schedule_record_gap.schedule)
      and g.last_at = follows
      and g.reason = schedule_record_gap.reason;
    if not found then
      insert into holdfast.gap
      values (schedule_record_gap.schedule, schedule_record_gap.first_at, schedule_record_gap.last_at, schedule_record_gap.ticks, schedule_record_gap.reason);
    end if;
  end
  $$;
comment on function holdfast.schedule_record_gap(bigint, timestamptz, timestamptz, bigint, text, timestamptz) is
  'Records ticks without a run. Extends the gap that ends with the preceding tick (follows) if it has the same reason.';

create or replace function holdfast.schedule_make_room(of_schedule bigint, overlap text) returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    runs boolean;
    waits boolean;
    stopped integer;
    replaced record;
  begin
    if overlap = 'allow' then
      return true;
    end if;
    -- A tick that is waiting to run again after a crash counts as a running tick.
    select
      coalesce(bool_or(state = 'running' or attempt > 0), false),
      coalesce(bool_or(state = 'waiting' and attempt = 0), false)
    into runs, waits
    from holdfast.tick
    where schedule = of_schedule
      and state in ('running', 'waiting');
    if overlap = 'skip' then
      return not runs and not waits;
    end if;
    if overlap = 'queue' then
      return not waits;
    end if;
    for stopped in
      update holdfast.tick
      set stopping = 'replaced'
      where schedule = of_schedule
        and state = 'running'
        and stopping is null
      returning session
    loop
      perform pg_notify(holdfast.notification_channel(), 'schedule-stop-requested ' || stopped);
    end loop;
    for replaced in
      delete from holdfast.tick
      where schedule = of_schedule
        and state = 'waiting'
        and attempt = 0
        and not extra
      returning at
    loop
      perform holdfast.schedule_record_gap(of_schedule, replaced.at, replaced.at, 1, 'overlap', null);
    end loop;
    update holdfast.tick
    set state = 'cancelled',
        ended_at = clock_timestamp()
    where schedule = of_schedule
      and state = 'waiting';
    return true;
  end
  $$;
comment on function holdfast.schedule_make_room(bigint, text) is
  'Returns whether overlap allows another run of a schedule. If overlap is replace, marks the running runs to be stopped and removes the waiting runs. The caller holds the lock on the schedule''s row.';

create or replace function holdfast.schedule_job_is_live(overlap text, job bigint) returns boolean
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    return overlap = 'skip'
      and job is not null
      and exists (select from holdfast.job_find(array[job]) as f where f.state in ('waiting', 'ready', 'running'));
  end
  $$;
comment on function holdfast.schedule_job_is_live(text, bigint) is
  'Returns true if the job of a stored schedule''s last tick has not ended and prevents another job. Always false for a schedule in code.';

create or replace function holdfast.schedule_settle(of_schedule bigint, older json, ticks timestamptz[], is_over boolean, now_is timestamptz)
  returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    s holdfast.schedule;
    due integer;
    missed_ticks integer;
    caught_up integer;
    is_current boolean;
    first_member_since timestamptz;
    follows timestamptz;
    missed_range record;
  begin
    select * into s from holdfast.schedule where key = of_schedule;
    select count(*) into due from unnest(ticks) as t (tick) where tick <= now_is;
    if due = 0 then
      return older is null;
    end if;
    -- The list of ticks is too short, because more ticks may be due by now.
    if due = cardinality(ticks) and not is_over then
      return false;
    end if;
    follows := s.settled_at;
    is_current := ticks[due] > now_is - interval '1 minute' or s.missed = 'latest';
    missed_ticks := case when is_current then due - 1 else due end;
    caught_up := case when s.missed = 'all' then least(missed_ticks, s.catch_up) else 0 end;
    if s.paused_at is null and (older is not null or missed_ticks > caught_up) then
      with member as materialized (
        select session, since
        from holdfast.schedule_member
        where schedule = of_schedule
      )
      select min(since) into first_member_since from member where holdfast.is_present(session);
    end if;
    for missed_range in
      select first_at, last_at, n
      from json_to_recordset(older) as o (first_at timestamptz, last_at timestamptz, n bigint)
      union all
      select tick, tick, 1
      from unnest(ticks) with ordinality as t (tick, place)
      where place <= case when s.paused_at is null then missed_ticks - caught_up else due end
      order by 1
    loop
      perform holdfast.schedule_record_gap(
        of_schedule, missed_range.first_at, missed_range.last_at, missed_range.n,
        case
          when s.paused_at is not null then 'paused'
          when s.missed = 'all' then 'limit'
          when s.job_head is null and missed_range.last_at < coalesce(first_member_since, 'infinity') then 'no instance'
          else 'missed'
        end,
        follows
      );
      follows := missed_range.last_at;
    end loop;
    if s.paused_at is null then
      insert into holdfast.tick (schedule, at)
      select of_schedule, tick
      from unnest(ticks) with ordinality as t (tick, place)
      where place > missed_ticks - caught_up
        and place <= missed_ticks;
      if is_current then
        -- The tick that is due now must not be skipped because of runs that catch up on missed ticks.
        if caught_up > 0
          or (not holdfast.schedule_job_is_live(s.overlap, s.last_job) and holdfast.schedule_make_room(of_schedule, s.overlap))
        then
          insert into holdfast.tick (schedule, at) values (of_schedule, ticks[due]);
        else
          perform holdfast.schedule_record_gap(of_schedule, ticks[due], ticks[due], 1, 'overlap', follows);
        end if;
      end if;
    end if;
    update holdfast.schedule
    set next_at = ticks[due + 1],
        settled_at = ticks[due]
    where key = of_schedule;
    return true;
  end
  $$;
comment on function holdfast.schedule_settle(bigint, json, timestamptz[], boolean, timestamptz) is
  'Settles a schedule''s due ticks: decides for each tick whether it runs, and records the decision. The caller holds the lock on the '
  'schedule''s row, and the first given tick is next_at. older: ranges of ticks that are certainly due, [{"first_at": …, "last_at": …, "n": '
  '…}]. ticks: the later ticks, listed individually. Unless is_over, at least one of these ticks is in the future. Returns false if the '
  'given ticks do not suffice.';

create or replace function holdfast.schedule_start_runs(of_schedule bigint, epoch_number integer, member text) returns json
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    started json;
  begin
    with candidate as (
      select t.at, t.extra
      from holdfast.schedule s
      join holdfast.tick t on t.schedule = s.key
      where s.key = of_schedule
        and t.state = 'waiting'
        and (s.paused_at is null or t.extra)
        and (
          s.overlap = 'allow'
          or not exists (select from holdfast.tick r where r.schedule = of_schedule and r.state = 'running')
        )
      order by t.attempt = 0, t.at
      limit (select case when overlap = 'allow' then null else 1 end from holdfast.schedule where key = of_schedule)
      for update of t
    ),
    started as (
      update holdfast.tick
      set state = 'running',
          session = epoch_number,
          instance = member,
          fence = nextval('holdfast.fence'),
          attempt = attempt + 1,
          started_at = clock_timestamp(),
          ended_at = null
      from candidate
      where tick.schedule = of_schedule
        and tick.at = candidate.at
        and tick.extra = candidate.extra
      returning tick.*
    )
    select json_agg(json_build_array(
      of_schedule::text,
      (extract(epoch from b.at) * 1000)::bigint,
      b.extra,
      b.fence,
      b.attempt,
      greatest(0, extract(epoch from b.started_at - b.at) * 1000)::bigint,
      (
        select (extract(epoch from d.at) * 1000)::bigint
        from holdfast.tick d
        where d.schedule = of_schedule
          and d.state = 'done'
          and not d.extra
        order by d.at desc
        limit 1
      )
    ) order by b.at)
    into started
    from started b;
    if started is not null then
      update holdfast.schedule set last_instance = member where key = of_schedule and last_instance is distinct from member;
    end if;
    return started;
  end
  $$;
comment on function holdfast.schedule_start_runs(bigint, integer, text) is
  'Starts a schedule''s waiting runs that may start now. The caller holds the lock on the schedule''s row. Returns the runs: [[schedule, tick, extra, fence, attempt, lateness, last success]], times in ms.';

create or replace function holdfast.schedule_states(keys bigint[], member text) returns json
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    return (
      select json_agg(json_build_array(
        s.key::text,
        coalesce(s.override, s.rule),
        (extract(epoch from s.next_at) * 1000)::bigint,
        (
          extract(epoch from s.next_at - clock_timestamp()) * 1000 + case when s.paused_at is null then 0 else 600000 end
        )::float8,
        s.last_instance,
        s.catch_up,
        case
          when s.next_at < clock_timestamp() - interval '2 seconds' then (
            with member as materialized (
              select session, since
              from holdfast.schedule_member
              where schedule = s.key
            )
            select (extract(epoch from min(since)) * 1000)::bigint from member where holdfast.is_present(session)
          )
        end,
        place.before,
        place.members
      ))
      from holdfast.schedule s
      cross join lateral (
        select count(*) filter (where m.instance < schedule_states.member) as before, count(*) as members
        from holdfast.schedule_member m
        where m.schedule = s.key
      ) as place
      where s.key = any(keys)
    );
  end
  $$;
comment on function holdfast.schedule_states(bigint[], text) is
  'Returns an array for each schedule: [key, rule in force, next tick, time until it is due, last instance, maximum number of missed ticks to catch up; start of the oldest membership if the tick is overdue; number of members before this member in the order of their ids; number of members]. Times are in ms. A paused schedule is due 10 minutes later, because its ticks are settled less often.';

create or replace function holdfast.schedule_claim(epoch_number integer, member text, asked json) returns json
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    one record;
    started json;
    all_started jsonb := '[]';
  begin
    -- The commit must reach the disk. If a server crash lost the claim, the tick would start twice.
    perform holdfast.flush_leases();
    if not holdfast.grace_is_over() then
      return json_build_object('state', 'in-grace');
    end if;
    for one in
      with a as materialized (
        select *
        from json_to_recordset(asked)
          as a (id bigint, rule text, older json, ticks timestamptz[], is_over boolean, begins boolean)
      )
      select s.key, a.older, a.ticks, a.is_over, a.begins
      from a
      join holdfast.schedule s on s.key = a.id
      where a.rule is null
        or (
          a.rule = coalesce(s.override, s.rule)
          and s.next_at = coalesce((a.older -> 0 ->> 'first_at')::timestamptz, a.ticks[1])
        )
      order by s.key
      for update of s skip locked
    loop
      if one.ticks is not null then
        perform holdfast.schedule_settle(one.key, one.older, one.ticks, one.is_over, clock_timestamp());
      end if;
      continue when not one.begins;
      started := holdfast.schedule_start_runs(one.key, epoch_number, member);
      if started is not null then
        all_started := all_started || started::jsonb;
      end if;
    end loop;
    return json_build_object(
      'state', 'claimed',
      'now', extract(epoch from clock_timestamp()) * 1000,
      'started', all_started,
      'states', holdfast.schedule_states(array(select id from json_to_recordset(asked) as a (id bigint)), member)
    );
  end
  $$;
comment on function holdfast.schedule_claim(integer, text, json) is
  'Settles schedules'' due ticks and starts runs: [{"id": key, "rule": …, "older": …, "ticks": …, "is_over": …, "begins": …}], each only if the rule in force and the next tick match. For an element without a rule, the function only starts runs. Skips locked schedules. Returns the started runs and the states of all schedules.';

create or replace function holdfast.schedule_resolve(key bigint) returns bigint
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$ select coalesce((select n.schedule from holdfast.schedule_name n where n.key = schedule_resolve.key), schedule_resolve.key) $$;
comment on function holdfast.schedule_resolve(bigint) is 'Returns the key of the schedule to which a name''s key refers.';

create or replace function holdfast.schedule_is_declared(of_schedule bigint, with_rule text, but_for text) returns boolean
  language sql
  set search_path = pg_catalog, pg_temp
  as $$
  with member as materialized (
    select session
    from holdfast.schedule_member
    where schedule = of_schedule
      and rule = with_rule
      and instance <> but_for
  )
  select exists (select from member where holdfast.is_present(session))
  $$;
comment on function holdfast.schedule_is_declared(bigint, text, text) is
  'Returns whether a live instance other than but_for has a schedule with this rule in its code.';

create or replace function holdfast.schedule_declare(epoch_number integer, member text, asked json) returns json
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    one record;
    s holdfast.schedule;
    id bigint;
    former bigint;
    first timestamptz;
    now_is timestamptz;
    declared jsonb := '[]';
  begin
    perform holdfast.flush_leases();
    -- Declarations are serialized, because a declaration may redirect other schedules' names.
    perform pg_advisory_xact_lock(holdfast.lock_class('schedule declarations'), 0);
    for one in
      select *
      from json_to_recordset(asked) as a (
        key bigint, namespace text, name text, former_key bigint, rule text, overlap text, missed text, catch_up integer, reruns boolean,
        is_repeated boolean, first_ticks timestamptz[], is_over boolean, job_queue text, job_kind text
      )
      order by key
    loop
      id := holdfast.schedule_resolve(one.key);
      if one.former_key is not null then
        former := holdfast.schedule_resolve(one.former_key);
        if former <> id then
          perform from holdfast.schedule where schedule.key = id;
          if not found and exists (select from holdfast.schedule where schedule.key = former) then
            insert into holdfast.schedule_name values (one.key, former);
            id := former;
          else
            -- Either both schedules exist or neither does. Redirects the former name to this schedule, and stops the
            -- former schedule.
            insert into holdfast.schedule_name values (one.former_key, id)
            on conflict on constraint schedule_name_pkey do update set schedule = excluded.schedule;
            update holdfast.schedule set next_at = null where schedule.key = former;
          end if;
        end if;
        update holdfast.schedule set name = one.name where schedule.key = id and name <> one.name;
      end if;
      select * into s from holdfast.schedule where schedule.key = id for update;
      if s.job_head is not null then
        perform holdfast.schedule_drop(id);
        -- After a rename, schedule_drop has also deleted the new name.
        insert into holdfast.schedule_name
        select one.key, id
        where one.key <> id;
        select * into s from holdfast.schedule where schedule.key = id;
      end if;
      now_is := clock_timestamp();
      if not found then
        select min(t) into first from unnest(one.first_ticks) as t where t > now_is;
        continue when first is null and not one.is_over;
        insert into holdfast.schedule (key, namespace, name, rule, next_at, overlap, missed, catch_up, reruns)
        values (id, one.namespace, one.name, one.rule, first, one.overlap, one.missed, one.catch_up, one.reruns)
        returning * into s;
        insert into holdfast.schedule_rule values (id, now_is, one.rule);
      -- A repeated declaration of an old instance must not replace the options of a newer instance.
      elsif s.rule = one.rule and one.is_repeated is not true then
        update holdfast.schedule
        set overlap = one.overlap,
            missed = one.missed,
            catch_up = one.catch_up,
            reruns = one.reruns
        where schedule.key = id
          and (overlap, missed, catch_up, reruns) is distinct from (one.overlap, one.missed, one.catch_up, one.reruns);
      end if;
      insert into holdfast.schedule_member as known (schedule, instance, session, rule, job_queue, job_kind)
      values (id, member, epoch_number, one.rule, one.job_queue, one.job_kind)
      on conflict on constraint schedule_member_pkey do update
      set session = excluded.session,
          rule = excluded.rule,
          job_queue = excluded.job_queue,
          job_kind = excluded.job_kind;
      declared := declared || jsonb_build_array(jsonb_build_array(
        one.key::text,
        id::text,
        s.rule <> one.rule
          and (not one.rule = any(s.superseded_rules) or not holdfast.schedule_is_declared(id, s.rule, member))
      ));
    end loop;
    return json_build_object(
      'now', extract(epoch from clock_timestamp()) * 1000,
      'declared', declared,
      'states', holdfast.schedule_states(array(select (d ->> 1)::bigint from jsonb_array_elements(declared) as d), member)
    );
  end
  $$;
comment on function holdfast.schedule_declare(integer, text, json) is
  'Declares the schedules in an instance''s code. Returns each schedule''s key, whether its rule must be adopted, and its state. If a schedule is missing from the result, the caller must declare it again, because none of its given first ticks is in the future.';

create or replace function holdfast.schedule_change(asked json) returns text
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    a record;
    s holdfast.schedule;
    first timestamptz;
    now_is timestamptz;
    before text;
    after text;
  begin
    perform holdfast.flush_leases();
    select *
    into a
    from json_to_record(asked) as a (
      id bigint, code_rule text, rule text, next_at timestamptz, older json, ticks timestamptz[], is_over boolean,
      what text, new_rule text, first_ticks timestamptz[], first_ticks_are_all boolean, overlap text, missed text, catch_up integer, reruns boolean
    );
    select * into s from holdfast.schedule where key = a.id for update;
    if not found then
      return 'unknown';
    end if;
    before := coalesce(s.override, s.rule);
    if s.rule <> a.code_rule or before <> a.rule or s.next_at is distinct from a.next_at then
      return 'retry';
    end if;
    now_is := clock_timestamp();
    if s.next_at is not null and not holdfast.schedule_settle(a.id, a.older, a.ticks, a.is_over, now_is) then
      return 'retry';
    end if;
    if a.what = 'resume' then
      update holdfast.schedule set paused_at = null where key = a.id;
    else
      after := case
        when a.what = 'override' then coalesce(a.new_rule, s.rule)
        else coalesce(s.override, a.new_rule)
      end;
      if after <> before then
        -- If the clock was set back, ticks after now are already settled. A tick is settled only once.
        select min(t) into first from unnest(a.first_ticks) as t where t > greatest(now_is, s.settled_at);
        if first is null and not a.first_ticks_are_all then
          return 'retry';
        end if;
        update holdfast.schedule set next_at = first, settled_at = null where key = a.id;
        insert into holdfast.schedule_rule values (a.id, now_is, after);
      end if;
      if a.what = 'override' then
        update holdfast.schedule set override = a.new_rule where key = a.id;
      else
        update holdfast.schedule
        set rule = a.new_rule,
            superseded_rules = (array_remove(superseded_rules, a.new_rule) || s.rule)[greatest(1, cardinality(superseded_rules) - 48):],
            overlap = a.overlap,
            missed = a.missed,
            catch_up = a.catch_up,
            reruns = a.reruns
        where key = a.id;
      end if;
    end if;
    if s.job_head is not null then
      perform holdfast.schedule_enqueue_waiting(array[a.id], null);
      perform pg_notify(holdfast.notification_channel(), 'schedule-stored ' || holdfast.lock_key(s.namespace, 'schedules'));
      return 'changed';
    end if;
    perform pg_notify(holdfast.notification_channel(), 'schedule-changed ' || a.id);
    return 'changed';
  end
  $$;
comment on function holdfast.schedule_change(json) is
  'Settles a schedule''s due ticks under the old rule, then changes the rule ("what": rule, by the code; override, by an operator) or resumes it (resume). Returns retry if the schedule has changed since it was read.';

create or replace function holdfast.schedule_recover(of_schedule bigint) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    dead integer[];
  begin
    with owner as materialized (
      select distinct session
      from holdfast.tick
      where state = 'running'
        and (of_schedule is null or schedule = of_schedule)
    )
    select array_agg(session) into dead from owner where not holdfast.is_present(session);
    if dead is null then
      return;
    end if;
    perform holdfast.note_lost_instances(dead);
    with lost as materialized (
      select t.schedule, t.at, t.extra, s.reruns
      from holdfast.tick t
      join holdfast.schedule s on s.key = t.schedule
      where t.state = 'running'
        and t.session = any(dead)
        and (of_schedule is null or t.schedule = of_schedule)
      order by t.schedule, t.at, t.extra
      for update of t skip locked
    )
    update holdfast.tick
    set state = case
          when stopping is not null then 'cancelled'
          when lost.reruns and crashes < 2 then 'waiting'
          else 'broken'
        end,
        crashes = crashes + 1,
        ended_at = clock_timestamp(),
        error = case
          when stopping is null then json_build_object(
            'name', 'InstanceCrashedError',
            'message', format('Its instance %s died while it ran', instance),
            'code', 'INSTANCE_CRASHED'
          )
        end
    from lost
    where tick.schedule = lost.schedule
      and tick.at = lost.at
      and tick.extra = lost.extra;
  end
  $$;
comment on function holdfast.schedule_recover(bigint) is
  'Returns dead instances'' runs to the state waiting, or records them as broken. Handles one schedule, or all schedules (null).';

create or replace function holdfast.schedule_request_run(of_schedule bigint) returns float8
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    s holdfast.schedule;
    asked_at timestamptz;
  begin
    perform holdfast.flush_leases();
    select * into s from holdfast.schedule where key = of_schedule for update;
    if not found then
      return null;
    end if;
    -- If the schedule has no members, no poll detects dead runs. Dead runs would then block this request.
    perform holdfast.schedule_recover(of_schedule);
    if holdfast.schedule_job_is_live(s.overlap, s.last_job) or not holdfast.schedule_make_room(of_schedule, s.overlap) then
      return null;
    end if;
    insert into holdfast.tick (schedule, at, extra)
    select
      of_schedule,
      greatest(
        date_trunc('milliseconds', clock_timestamp()),
        (select max(at) + interval '1 millisecond' from holdfast.tick where schedule = of_schedule and extra)
      ),
      true
    returning at into asked_at;
    if s.job_head is not null then
      perform holdfast.schedule_enqueue_waiting(array[of_schedule], null);
      return extract(epoch from asked_at) * 1000;
    end if;
    perform pg_notify(holdfast.notification_channel(), 'schedule-run-requested ' || of_schedule);
    return extract(epoch from asked_at) * 1000;
  end
  $$;
comment on function holdfast.schedule_request_run(bigint) is
  'Requests a run independently of the rule. A member starts the run. Returns the run''s tick in ms. Returns null if the schedule does not '
  'exist, or if a run exists and overlap does not allow a second run.';

create or replace function holdfast.schedule_record_ends(asked json) returns json
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    recorded bigint[];
  begin
    with e as materialized (
      select *
      from json_to_recordset(asked)
        as e (id bigint, at timestamptz, extra boolean, fence bigint, state text, error json)
    ),
    mine as materialized (
      select t.schedule, t.at, t.extra, t.fence, e.state, e.error
      from e
      join holdfast.tick t on t.schedule = e.id and t.at = e.at and t.extra = e.extra
      where t.fence = e.fence
        and t.state = 'running'
      order by t.schedule, t.at, t.extra
      for update of t
    ),
    ended as (
      update holdfast.tick
      set state = case
            when mine.state <> 'returned' then mine.state
            -- A replaced run must not start again.
            when stopping is not null then 'cancelled'
            when (select reruns from holdfast.schedule where key = mine.schedule) then 'waiting'
            else 'cancelled'
          end,
          error = mine.error,
          ended_at = clock_timestamp()
      from mine
      where tick.schedule = mine.schedule
        and tick.at = mine.at
        and tick.extra = mine.extra
      returning tick.fence
    )
    select array_agg(ended.fence) into recorded from ended;
    return json_build_object(
      'recorded', coalesce(recorded, '{}'),
      'waits', (
        select json_agg(distinct e.id)
        from json_to_recordset(asked) as e (id text)
        where exists (select from holdfast.tick w where w.schedule = e.id::bigint and w.state = 'waiting')
      )
    );
  end
  $$;
comment on function holdfast.schedule_record_ends(json) is
  'Records runs'' results, each only if the run still has this fencing token: [{"id": key, "at": …, "extra": …, "fence": …, "state": …, "error": …}]. A returned run waits again if the schedule allows reruns and no later tick has replaced the run. Returns the fencing tokens of the recorded runs, and the schedules that have a waiting run.';

create or replace function holdfast.schedule_look(
  epoch_number integer, member text, fences bigint[], max_fence bigint, horizon_ms integer
)
  returns json
  language plpgsql
  set search_path = pg_catalog, pg_temp
  -- This function is part of the heartbeat, which must not wait for a table lock.
  set lock_timeout = '200ms'
  as $$
  declare
    answer json;
    soon json;
  begin
    if horizon_ms is not null then
      with soon as materialized (
        select key
        from holdfast.schedule
        where job_head is null
          and next_at <= clock_timestamp() + make_interval(secs => horizon_ms / 1000.0)
          and (paused_at is null or next_at < clock_timestamp() - interval '10 minutes')
      )
      select json_build_object(
        'states', holdfast.schedule_states(
          array(
            select key
            from soon
            where exists (
              select from holdfast.schedule_member m where m.schedule = soon.key and m.instance = schedule_look.member
            )
          ),
          schedule_look.member
        ),
        'members', (
          select count(*)
          from holdfast.schedule_member m
          where m.instance = schedule_look.member
            and m.session = epoch_number
        ),
        'adopt', (
          select json_agg(s.key::text)
          from holdfast.schedule_member m
          join holdfast.schedule s on s.key = m.schedule
          where m.instance = schedule_look.member
            and m.rule <> s.rule
            and not exists (
              select from holdfast.schedule_member o where o.schedule = s.key and o.rule = s.rule
            )
        )
      )
      into soon;
    end if;
    with active as materialized (
      select t.schedule, bool_or(t.state = 'running') as runs, bool_or(t.state = 'waiting') as waits, bool_or(t.extra) as extra
      from holdfast.tick t
      where t.state in ('running', 'waiting')
      group by t.schedule
    ),
    mine as materialized (
      select
        active.schedule,
        runs,
        waits and (overlap = 'allow' or not runs) and (paused_at is null or extra) as begins
      from active
      join holdfast.schedule on key = active.schedule
      where exists (
        select from holdfast.schedule_member m where m.schedule = active.schedule and m.instance = schedule_look.member
      )
    ),
    runner as materialized (
      select distinct session
      from holdfast.tick
      where state = 'running'
        and session <> epoch_number
    ),
    -- Each member checks only the next member, so that the cost of a look does not grow with the number of instances.
    next_member as materialized (
      (
        select session
        from holdfast.schedule_member
        where instance > schedule_look.member
        order by instance
        limit 1
      )
      union all
      (
        select session
        from holdfast.schedule_member
        where instance <> schedule_look.member
        order by instance
        limit 1
      )
      limit 1
    )
    select json_build_object(
      'now', extract(epoch from clock_timestamp()) * 1000,
      'fence', (select last_value from holdfast.fence),
      'runs', (select json_agg(schedule::text) from mine where runs),
      'begin', (select json_agg(schedule::text) from mine where begins),
      'stopping', (
        select json_agg(json_build_array(fence, stopping))
        from holdfast.tick
        where state = 'running'
          and session = epoch_number
          and stopping is not null
      ),
      'soon', soon,
      'repairs', exists (
          select
          from holdfast.tick
          where state = 'running'
            and session = epoch_number
            and fence <= max_fence
            and not fence = any(fences)
        )
        or exists (select from runner where not holdfast.is_present(session))
        or exists (select from next_member where not holdfast.is_present(session))
    )
    into answer;
    return answer;
  end
  $$;
comment on function holdfast.schedule_look(integer, text, bigint[], bigint, integer) is
  'Returns the information that a member needs, and changes nothing: the member''s schedules that have an active run, the schedules that '
  'may start a run, and the member''s runs that must stop. repairs: whether schedule_poll() would change anything. With a horizon, also '
  'returns the states of the schedules that are due before the horizon, the number of the member''s memberships, and the schedules that '
  'must adopt the member''s rule.';

create or replace function holdfast.schedule_poll(epoch_number integer, member text, fences bigint[], max_fence bigint, horizon_ms integer) returns json
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    update holdfast.tick
    set state = case when stopping is null then 'waiting' else 'cancelled' end,
        ended_at = case when stopping is not null then clock_timestamp() end,
        attempt = attempt - 1
    where state = 'running'
      and session = epoch_number
      and fence <= max_fence
      and not fence = any(fences);
    -- Only one member at a time checks for dead instances.
    if pg_try_advisory_xact_lock(holdfast.lock_class('schedule maintenance'), 0) then
      perform holdfast.schedule_recover(null);
      if horizon_ms is not null then
        with owner as materialized (
          select distinct session from holdfast.schedule_member
        ),
        gone as materialized (
          select session from owner where not holdfast.is_present(session)
        )
        delete from holdfast.schedule_member where session = any(array(select session from gone));
      end if;
    end if;
    return holdfast.schedule_look(epoch_number, member, fences, max_fence, horizon_ms);
  end
  $$;
comment on function holdfast.schedule_poll(integer, text, bigint[], bigint, integer) is
  'Polls on behalf of a member. Returns two kinds of runs to the state waiting: runs of the member that the member does not know (up to '
  'max_fence), and runs of dead instances. With a horizon, also removes the memberships of dead instances. Returns the result of '
  'schedule_look().';

create or replace function holdfast.schedule_sweep_one(of_schedule bigint, keep_days integer, max_kept integer, min_kept integer) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    oldest_kept timestamptz;
    cut timestamptz;
  begin
    select at into oldest_kept from holdfast.tick where schedule = of_schedule order by at desc offset min_kept - 1 limit 1;
    if found then
      select at into cut from holdfast.tick where schedule = of_schedule order by at desc offset max_kept limit 1;
      with gone as (
        delete from holdfast.tick
        where schedule = of_schedule
          and at = any(array(
            select at
            from holdfast.tick
            where schedule = of_schedule
              and at < least(oldest_kept, greatest(cut, clock_timestamp() - make_interval(days => keep_days)))
            order by at
            limit 5000
          ))
          and state not in ('running', 'waiting')
        returning at, extra
      )
      delete from holdfast.tick_log
      using gone
      where tick_log.schedule = of_schedule
        and tick_log.at = gone.at
        and tick_log.extra = gone.extra;
    end if;
    select first_at into oldest_kept from holdfast.gap where schedule = of_schedule order by first_at desc offset min_kept - 1 limit 1;
    if found then
      select first_at into cut from holdfast.gap where schedule = of_schedule order by first_at desc offset max_kept limit 1;
      delete from holdfast.gap
      where schedule = of_schedule
        and first_at = any(array(
          select first_at
          from holdfast.gap
          where schedule = of_schedule
            and last_at < least(oldest_kept, greatest(cut, clock_timestamp() - make_interval(days => keep_days)))
          order by first_at
          limit 5000
        ));
    end if;
    -- Keeps the rule that was in force at the oldest kept tick or gap, and all later rules.
    delete from holdfast.schedule_rule
    where schedule = of_schedule
      and since < (
        select max(since)
        from holdfast.schedule_rule
        where schedule = of_schedule
          and since < coalesce(
            least(
              (select min(at) from holdfast.tick where schedule = of_schedule and not extra),
              (select min(first_at) from holdfast.gap where schedule = of_schedule)
            ),
            'infinity'
          )
      );
  end
  $$;
comment on function holdfast.schedule_sweep_one(bigint, integer, integer, integer) is
  'Removes a schedule''s ticks and gaps that are older than keep_days or not among its latest max_kept rows, but never the latest min_kept rows. Also removes rules that ended before the oldest kept row. Removes a bounded number of rows per call.';

create or replace function holdfast.schedule_sweep(keep_days integer, max_kept integer, min_kept integer) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    one bigint;
  begin
    if not pg_try_advisory_xact_lock(holdfast.lock_class('schedule sweep'), 0) then
      return;
    end if;
    for one in select key from holdfast.schedule where job_head is null loop
      perform holdfast.schedule_sweep_one(one, keep_days, max_kept, min_kept);
    end loop;
  end
  $$;
comment on function holdfast.schedule_sweep(integer, integer, integer) is
  'Removes old ticks, gaps and rules of all schedules in code. See schedule_sweep_one().';

create or replace function holdfast.schedule_unaccounted(of_schedule bigint, ticks timestamptz[]) returns setof timestamptz
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
  select at
  from unnest(ticks) as t (at)
  where (select count(*) from holdfast.tick where schedule = of_schedule and tick.at = t.at and not extra)
    + (select count(*) from holdfast.gap where schedule = of_schedule and first_at <= t.at and last_at >= t.at) <> 1
  $$;
comment on function holdfast.schedule_unaccounted(bigint, timestamptz[]) is
  'Returns a rule''s settled ticks that do not belong to exactly one run or gap. An empty result proves that no tick was lost or '
  'repeated.';

create or replace function holdfast.schedules_largest_numbers() returns table (sequence regclass, largest bigint)
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    with latest as (
      select recent.fence, recent.session
      from holdfast.schedule
      cross join lateral (
        select fence, session from holdfast.tick where tick.schedule = schedule.key order by at desc limit 10
      ) as recent
      where schedule.job_head is null
    )
    select 'holdfast.fence'::regclass, max(fence) from latest
    union all
    select 'holdfast.session'::regclass, greatest(
      (select max(session) from holdfast.schedule_member),
      (select max(session) from latest)
    )
  $$;
comment on function holdfast.schedules_largest_numbers() is
  'Returns the largest number from each sequence in this module''s tables. See sequence_positions().';

-- Stored schedules, which programs create with schedules.upsert or in SQL.

create or replace function holdfast.schedule_store(asked json) returns text
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    one record;
    s holdfast.schedule;
    id bigint;
    outcomes text[] := '{}';
    is_new_rule boolean;
    is_unplanned boolean;
  begin
    perform holdfast.flush_leases();
    for one in
      select *
      from json_to_recordset(asked) as a (
        place integer, key bigint, namespace text, name text, rule text, head json, input text, overlap text, missed text, catch_up integer
      )
      order by key, place
    loop
      id := holdfast.schedule_resolve(one.key);
      loop
        insert into holdfast.schedule (
          key, namespace, name, rule, overlap, missed, catch_up, reruns, job_head, job_input, changed_at
        )
        values (
          id, one.namespace, one.name, one.rule, one.overlap, one.missed, one.catch_up, true, one.head, one.input::json,
          clock_timestamp()
        )
        on conflict on constraint schedule_pkey do nothing;
        if found then
          outcomes[one.place] := 'created';
          exit;
        end if;
        select * into s from holdfast.schedule where schedule.key = id for update;
        -- Another transaction may have removed the schedule since the insert.
        continue when not found;
        if s.job_head is null then
          outcomes[one.place] := 'in code';
          exit;
        end if;
        is_new_rule := one.rule <> coalesce(s.next_rule, s.rule);
        if not is_new_rule
          and s.job_head::text = one.head::text
          and s.job_input::text = one.input
          and (s.overlap, s.missed, s.catch_up) = (one.overlap, one.missed, one.catch_up)
        then
          outcomes[one.place] := 'unchanged';
          exit;
        end if;
        is_unplanned := s.changed_at is not null and s.next_rule is null;
        update holdfast.schedule
        set job_head = one.head,
            job_input = one.input::json,
            overlap = one.overlap,
            missed = one.missed,
            catch_up = one.catch_up,
            rule = case when is_unplanned then one.rule else s.rule end,
            next_rule = case when not is_unplanned and one.rule <> s.rule then one.rule end,
            changed_at = case
              when is_unplanned or not is_new_rule then s.changed_at
              -- If the clock was set back, ticks after now are already settled.
              when one.rule <> s.rule then greatest(clock_timestamp(), s.settled_at)
            end
        where schedule.key = id;
        outcomes[one.place] := 'changed';
        exit;
      end loop;
    end loop;
    perform pg_notify(
      holdfast.notification_channel(),
      'schedule-stored ' || holdfast.lock_key(a.namespace, 'schedules')
    )
    from (select distinct namespace from json_to_recordset(asked) as a (namespace text)) as a
    where outcomes && array['created', 'changed'];
    return array_to_string(outcomes, ',');
  end
  $$;
comment on function holdfast.schedule_store(json) is
  'Creates or changes stored schedules: [{"place": 1, "key": …, "namespace": …, "name": …, "rule": …, "head": …, "input": …, "overlap": …, '
  '"missed": …, "catch_up": …}]. The input is a string that contains JSON. Returns for each place: created, changed, unchanged or in code. A new rule applies immediately. An '
  'instance computes the rule''s first tick, because only the TypeScript code can evaluate rules. An unchanged rule keeps next_at.';

create or replace function holdfast.schedule_drop(of_schedule bigint) returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    delete from holdfast.schedule where key = of_schedule and job_head is not null;
    if not found then
      return false;
    end if;
    delete from holdfast.tick where schedule = of_schedule;
    delete from holdfast.gap where schedule = of_schedule;
    delete from holdfast.schedule_rule where schedule = of_schedule;
    delete from holdfast.schedule_name where schedule = of_schedule;
    return true;
  end
  $$;
comment on function holdfast.schedule_drop(bigint) is
  'Removes a stored schedule and its history. Jobs that it has enqueued remain. Returns false if there is no such stored schedule.';

create or replace function holdfast.schedule_upsert(
  name text,
  queue text,
  kind text,
  payload anycompatible,
  cron text default null,
  every interval default null,
  timezone text default 'UTC',
  overlap text default 'allow',
  missed text default 'skip',
  priority integer default 0,
  namespace text default 'default'
) returns text
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    -- The cast throws if the text is not JSON.
    input constant json := payload::text::json;
    every_ms constant numeric := extract(epoch from every) * 1000;
    queue_key bigint;
    rule text;
    outcome text;
  begin
    if coalesce(name, '') = '' or coalesce(queue, '') = '' or coalesce(kind, '') = '' or coalesce(namespace, '') = '' then
      raise exception 'Expected a name, a queue, a kind and a namespace, got %, %, % and %',
        coalesce(quote_literal(name), 'null'), coalesce(quote_literal(queue), 'null'), coalesce(quote_literal(kind), 'null'),
        coalesce(quote_literal(namespace), 'null')
        using errcode = '22023';
    end if;
    if input is null or octet_length(input::text) > 1000000 then
      raise exception 'Expected a JSON payload of at most 1000000 bytes, got %', coalesce(octet_length(input::text)::text || ' bytes', 'null')
        using errcode = '22023';
    end if;
    if (cron is null) = (every is null) then
      raise exception 'Expected either cron or every, got %', case when cron is null then 'neither' else 'both' end
        using errcode = '22023';
    end if;
    if priority is null or priority not between -5 and 5 then
      raise exception 'Expected a priority from -5 to 5, got %', coalesce(priority::text, 'null')
        using errcode = '22023';
    end if;
    if overlap is null or overlap not in ('skip', 'allow') or missed is null or missed not in ('skip', 'latest') then
      raise exception 'Expected overlap to be skip or allow and missed to be skip or latest, got % and %',
        coalesce(quote_literal(overlap), 'null'), coalesce(quote_literal(missed), 'null')
        using errcode = '22023';
    end if;
    if every_ms < 1000 or every_ms > 365 * 86400000::bigint or every_ms <> trunc(every_ms) then
      raise exception 'Expected every to be a whole number of milliseconds from 1 second to 365 days, got %', every
        using errcode = '22023';
    end if;
    if cron !~ '^\s*(@[a-z]+|\S+(\s+\S+){4,5})\s*$' then
      raise exception 'Expected cron to have five or six fields or to be a nickname such as @daily, got %', quote_literal(cron)
        using errcode = '22023';
    end if;
    -- Throws if the time zone is unknown.
    perform clock_timestamp() at time zone timezone;
    rule := case
      when every is not null then '{"every":' || every_ms::bigint || '}'
      else '{"cron":' || to_json(cron) || ',"timezone":' || to_json(timezone) || '}'
    end;
    queue_key := holdfast.lock_key(namespace, 'queue/' || queue);
    perform holdfast.job_record_queue(queue_key, namespace, queue);
    outcome := holdfast.schedule_store(json_build_array(json_build_object(
      'place', 1,
      'key', holdfast.lock_key(namespace, 'schedule/' || name),
      'namespace', namespace,
      'name', name,
      'rule', rule,
      'head', ('{"queue":' || queue_key || ',"kind":' || to_json(kind) || ',"priority":' || priority || ',"max_crashes":3}')::json,
      'input', input::text,
      'overlap', overlap,
      'missed', missed,
      'catch_up', 0
    )));
    if outcome = 'in code' then
      raise exception 'The schedule "%" is defined in code', name
        using errcode = '22023', hint = 'Choose another name.';
    end if;
    return outcome;
  end
  $$;
comment on function holdfast.schedule_upsert(text, text, text, anycompatible, text, interval, text, text, text, integer, text) is
  'Creates or changes a stored schedule from SQL, in the current transaction: '
  'select holdfast.schedule_upsert(''tenant:42:report'', ''default'', ''send-report'', ''{"tenant": 42}'', cron => ''0 8 * * *'', timezone => ''Europe/London''). '
  'Returns created, changed or unchanged.';

create or replace function holdfast.schedule_remove(name text, namespace text default 'default') returns boolean
  language sql
  set search_path = pg_catalog, pg_temp
  as $$ select holdfast.schedule_drop(holdfast.schedule_resolve(holdfast.lock_key(namespace, 'schedule/' || name))) $$;
comment on function holdfast.schedule_remove(text, text) is
  'Removes a stored schedule and its history, in the current transaction. Returns false if there is no such stored schedule.';

create or replace function holdfast.schedule_enqueue(keys bigint[], ticks timestamptz[]) returns bigint[]
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    heads text;
    inputs text;
    metas text;
    places integer[];
    ids bigint[];
  begin
    with asked as materialized (
      select
        s.job_head::text as head, s.job_input, s.name, a.tick, a.place,
        row_number() over (order by s.job_head::text, a.place) as number
      from unnest(keys, ticks) with ordinality as a (key, tick, place)
      join holdfast.schedule s on s.key = a.key
    ),
    head as (
      select head, min(number) - 1 as after_input, max(number) as last_input
      from asked
      group by head
    )
    select
      (
        select '[' || string_agg(
          left(head, -1) || ',"after_input":' || after_input || ',"last_input":' || last_input || '}', ',' order by after_input
        ) || ']'
        from head
      ),
      '[' || string_agg(job_input::text, ',' order by number) || ']',
      '[' || string_agg(json_build_object(
        'schedule', name,
        'tick', to_char(tick at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
      )::text, ',' order by number) || ']',
      array_agg(number::integer order by place)
    into heads, inputs, metas, places
    from asked;
    select e.ids into ids from holdfast.job_enqueue(heads::json, inputs::json, false, null, metas::json) as e;
    return array(select ids[number] from unnest(places) with ordinality as p (number, place) order by place);
  end
  $$;
comment on function holdfast.schedule_enqueue(bigint[], timestamptz[]) is
  'Enqueues one job for each given tick of a stored schedule. The caller holds the locks on the schedules'' rows. Returns the ids in the order of the keys.';

create or replace function holdfast.schedule_enqueue_waiting(of_schedules bigint[], member text) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    keys bigint[];
    ticks timestamptz[];
    extras boolean[];
    ids bigint[];
  begin
    select array_agg(t.schedule order by t.schedule, t.at), array_agg(t.at order by t.schedule, t.at), array_agg(t.extra order by t.schedule, t.at)
    into keys, ticks, extras
    from holdfast.tick t
    where t.schedule = any(of_schedules)
      and t.state = 'waiting';
    if keys is null then
      return;
    end if;
    ids := holdfast.schedule_enqueue(keys, ticks);
    update holdfast.tick
    set state = 'done',
        instance = member,
        attempt = 1,
        started_at = clock_timestamp(),
        ended_at = clock_timestamp(),
        job = a.job
    from unnest(keys, ticks, extras, ids) as a (key, at, extra, job)
    where tick.schedule = a.key
      and tick.at = a.at
      and tick.extra = a.extra;
    update holdfast.schedule
    set last_job = a.job
    from (select key, max(job) as job from unnest(keys, ids) as a (key, job) group by key) as a
    where schedule.key = a.key;
  end
  $$;
comment on function holdfast.schedule_enqueue_waiting(bigint[], text) is
  'Enqueues the jobs of the waiting ticks of stored schedules, in the transaction that settled the ticks. The caller holds the locks on the schedules'' rows.';

create or replace function holdfast.schedule_settle_stored(plans json, member text) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    one record;
    now_is constant timestamptz := clock_timestamp();
    keys bigint[];
    ticks timestamptz[];
    next_ticks timestamptz[];
    ids bigint[];
    simple json;
    others json;
    settled bigint[] := '{}';
    last_jobs bigint[];
    live_jobs bigint[];
  begin
    last_jobs := array(
      select s.last_job
      from json_to_recordset(plans) as p (id bigint)
      join holdfast.schedule s on s.key = p.id
      where s.overlap = 'skip'
        and s.last_job is not null
    );
    select array_agg(f.id)
    into live_jobs
    from holdfast.job_find(last_jobs) as f
    where f.state in ('waiting', 'ready', 'running');
    with p as materialized (
      select *
      from json_to_recordset(plans) as p (
        id bigint, rule text, next_at timestamptz, older json, ticks timestamptz[], is_over boolean, changed_at timestamptz,
        new_rule text, first timestamptz
      )
    ),
    locked as materialized (
      select
        s.key, p.older, p.ticks, p.is_over, p.changed_at, p.first, s.settled_at,
        p.changed_at is null
          and s.paused_at is null
          and s.missed <> 'all'
          and p.ticks[1] <= now_is
          and (p.ticks[2] > now_is or (p.is_over and cardinality(p.ticks) = 1)) as is_simple,
        case
          when p.ticks[1] <= now_is - interval '1 minute' and s.missed = 'skip' then 'missed'
          when s.overlap <> 'allow' and s.last_job = any(live_jobs) then 'overlap'
        end as skips
      from p
      join holdfast.schedule s on s.key = p.id
      where s.job_head is not null
        and p.rule = coalesce(s.override, s.rule)
        and p.new_rule = coalesce(s.override, s.next_rule, s.rule)
        and s.next_at is not distinct from p.next_at
        and s.changed_at is not distinct from p.changed_at
        -- A requested run can enqueue a job before this statement locks the schedule. The next plan then settles the tick.
        and (s.overlap = 'allow' or s.last_job is null or s.last_job = any(last_jobs))
      order by s.key
      for update of s skip locked
    )
    select
      array_agg(l.key) filter (where is_simple and skips is null),
      array_agg(l.ticks[1]) filter (where is_simple and skips is null),
      array_agg(l.ticks[2]) filter (where is_simple and skips is null),
      json_agg(l) filter (where is_simple and (skips is not null or older is not null)),
      json_agg(l) filter (where not is_simple)
    into keys, ticks, next_ticks, simple, others
    from locked l;
    -- Most schedules have one due tick, after which the next is in the future. One statement per table handles all of them.
    if simple is not null then
      with missing as materialized (
        select l.key, l.settled_at, l.skips, l.ticks[1] as tick, l.ticks[2] as next_at, o.first_at, o.last_at, coalesce(o.n, 0) as n
        from json_to_recordset(simple) as l (key bigint, older json, ticks timestamptz[], settled_at timestamptz, skips text)
        left join lateral (
          select min(first_at) as first_at, max(last_at) as last_at, sum(n)::bigint as n
          from json_to_recordset(l.older) as o (first_at timestamptz, last_at timestamptz, n bigint)
        ) as o on true
      ),
      skipped as (
        update holdfast.schedule
        set next_at = m.next_at,
            settled_at = m.tick
        from missing m
        where schedule.key = m.key
          and m.skips is not null
      ),
      found as materialized (
        select
          key, coalesce(first_at, tick) as first_at, case when skips = 'missed' then tick else last_at end as last_at,
          n + (case when skips = 'missed' then 1 else 0 end) as n, 'missed' as reason, settled_at as follows
        from missing
        where n > 0
          or skips = 'missed'
        union all
        select key, tick, tick, 1, 'overlap', case when n = 0 then settled_at end
        from missing
        where skips = 'overlap'
      ),
      extended as (
        update holdfast.gap
        set last_at = f.last_at,
            ticks = gap.ticks + f.n
        from found f
        where gap.schedule = f.key
          and gap.first_at = (select max(latest.first_at) from holdfast.gap latest where latest.schedule = f.key)
          and gap.last_at = f.follows
          and gap.reason = f.reason
        returning f.key, f.reason
      )
      insert into holdfast.gap
      select f.key, f.first_at, f.last_at, f.n, f.reason
      from found f
      -- Hashed. A nested loop would compare each schedule with each other schedule.
      where ((f.key, f.reason) in (select e.key, e.reason from extended e)) is not true;
    end if;
    if keys is not null then
      ids := holdfast.schedule_enqueue(keys, ticks);
      insert into holdfast.tick (schedule, at, state, instance, attempt, started_at, ended_at, job)
      select key, at, 'done', member, 1, clock_timestamp(), clock_timestamp(), job
      from unnest(keys, ticks, ids) as a (key, at, job);
      update holdfast.schedule
      set next_at = a.next_at,
          settled_at = a.at,
          last_job = a.job,
          last_instance = member
      from unnest(keys, ticks, next_ticks, ids) as a (key, at, next_at, job)
      where schedule.key = a.key;
    end if;
    -- New schedules have no ticks to settle. Thousands of them may be created at the same time.
    with planned as (
      update holdfast.schedule s
      set rule = coalesce(s.next_rule, s.rule),
          next_rule = null,
          changed_at = null,
          next_at = o.first,
          settled_at = null
      from json_to_recordset(others) as o (key bigint, ticks timestamptz[], changed_at timestamptz, first timestamptz)
      where s.key = o.key
        and o.ticks is null
        and o.changed_at is not null
        and s.override is null
      returning s.key, o.changed_at, s.rule
    )
    insert into holdfast.schedule_rule
    select key, changed_at, rule from planned
    on conflict on constraint schedule_rule_pkey do nothing;
    for one in
      select *
      from json_to_recordset(others) as o (
        key bigint, older json, ticks timestamptz[], is_over boolean, changed_at timestamptz, first timestamptz
      )
      where o.ticks is not null
        or exists (select from holdfast.schedule s where s.key = o.key and s.override is not null)
    loop
      if one.ticks is not null then
        continue when not holdfast.schedule_settle(
          one.key, one.older, one.ticks, one.is_over, coalesce(one.changed_at, now_is)
        );
      end if;
      if one.changed_at is not null then
        update holdfast.schedule
        set rule = coalesce(next_rule, rule),
            next_rule = null,
            changed_at = null,
            -- The rule in force does not change while an override exists.
            next_at = case when override is null or next_at is null then one.first else next_at end,
            settled_at = case when override is null or next_at is null then null else settled_at end
        where key = one.key;
        insert into holdfast.schedule_rule
        select key, one.changed_at, rule
        from holdfast.schedule
        where key = one.key
          and override is null
        on conflict on constraint schedule_rule_pkey do nothing;
      end if;
      settled := settled || one.key;
    end loop;
    perform holdfast.schedule_enqueue_waiting(settled, member);
  end
  $$;
comment on function holdfast.schedule_settle_stored(json, text) is
  'Settles due ticks of stored schedules and enqueues their jobs, each only if the rule and next_at still match: [{"id": key, "rule": …, "next_at": …, "older": …, "ticks": …, "is_over": …, "changed_at": …, "new_rule": …, "first": …}]. With changed_at, settles the ticks before this time, and then puts the new rule into force. Skips locked schedules.';

create or replace function holdfast.schedule_stored_due_ms(space text) returns float8
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  -- This function is part of the heartbeat, which must not wait for a table lock.
  set lock_timeout = '200ms'
  as $$
  begin
    if exists (select from holdfast.schedule where namespace = space and changed_at is not null) then
      return 0;
    end if;
    return (
      select greatest(0, extract(epoch from next_at - clock_timestamp()) * 1000)
      from holdfast.schedule
      where namespace = space
        and job_head is not null
        and paused_at is null
        and changed_at is null
        and next_at is not null
      order by next_at
      limit 1
    );
  end
  $$;
comment on function holdfast.schedule_stored_due_ms(text) is
  'Returns the time in ms until a namespace''s stored schedules need an instance. Null if they do not need an instance.';

create or replace function holdfast.schedule_tick_stored(space text, member text, plans json, max_count integer, unreadable bigint[])
  returns json
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    now_is timestamptz;
    due json;
  begin
    -- The commit must reach the disk before the instance counts on it.
    perform holdfast.flush_leases();
    if not pg_try_advisory_xact_lock(holdfast.lock_class('stored schedules'), hashtext(space)) then
      return json_build_object('state', 'standby', 'wait_ms', 200);
    end if;
    insert into holdfast.schedule_ticker as known
    values (space, member, clock_timestamp() + interval '1 second')
    on conflict on constraint schedule_ticker_pkey do update
    set instance = excluded.instance, until = excluded.until
    where known.instance = excluded.instance
      or known.until < clock_timestamp();
    if not found then
      return json_build_object(
        'state', 'standby',
        'wait_ms', (
          select greatest(0, extract(epoch from until - clock_timestamp()) * 1000)
          from holdfast.schedule_ticker
          where namespace = space
        )
      );
    end if;
    if json_array_length(plans) > 0 then
      perform holdfast.schedule_settle_stored(plans, member);
    end if;
    now_is := clock_timestamp();
    with next as (
      (
        select *
        from holdfast.schedule
        where namespace = space
          and job_head is not null
          and paused_at is null
          and changed_at is null
          and next_at <= now_is
          and not key = any(unreadable)
        order by next_at
        limit max_count
      )
      union all
      (
        select *
        from holdfast.schedule
        where namespace = space
          and changed_at is not null
          and not key = any(unreadable)
        order by changed_at
        limit max_count
      )
    )
    select json_agg(json_build_array(
      key::text,
      coalesce(override, rule),
      (extract(epoch from next_at) * 1000)::bigint,
      catch_up,
      changed_at,
      floor(extract(epoch from changed_at) * 1000)::bigint,
      coalesce(override, next_rule, rule)
    ))
    into due
    from next;
    -- The omitted schedules can have rules that only a newer version can read. Lets another instance try.
    if due is null and cardinality(unreadable) > 0 then
      update holdfast.schedule_ticker set until = now_is where namespace = space;
    end if;
    return json_build_object(
      'state', 'ticked',
      'now', extract(epoch from now_is) * 1000,
      'due', coalesce(due, '[]'),
      'wait_ms', case when due is null then holdfast.schedule_stored_due_ms(space) else 0 end
    );
  end
  $$;
comment on function holdfast.schedule_tick_stored(text, text, json, integer, bigint[]) is
  'Settles the planned ticks of a namespace''s stored schedules, and returns the next schedules to plan: [[key, rule in force, next tick, maximum number of missed ticks to catch up, time of a change, the same in ms, new rule]]. Only one instance at a time gets schedules. The others are on standby.';

create or replace function holdfast.schedule_sweep_stored(after_key bigint, max_count integer, keep_days integer, max_kept integer, min_kept integer)
  returns bigint
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    one bigint;
    last_key bigint;
    n integer := 0;
  begin
    for one in select key from holdfast.schedule where key > after_key and job_head is not null order by key limit max_count loop
      perform holdfast.schedule_sweep_one(one, keep_days, max_kept, min_kept);
      last_key := one;
      n := n + 1;
    end loop;
    return case when n = max_count then last_key end;
  end
  $$;
comment on function holdfast.schedule_sweep_stored(bigint, integer, integer, integer, integer) is
  'Removes old ticks, gaps and rules of at most max_count stored schedules after a key. See schedule_sweep_one(). Returns the last key, or null at the end.';
