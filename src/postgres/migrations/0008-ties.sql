-- What ties jobs to others: lanes, and jobs that others wait for. Everything here is done by one at a time, in transactions of its own that wait for
-- nobody (see job_tie_up), so nothing has to be locked but what is moved.

create table holdfast.lane (
  key bigint not null,
  version bigint not null default 0,
  queue bigint not null,
  name text not null,
  max integer not null,
  every bigint,
  burst integer,
  told_by bigint not null,
  active integer not null default 0,
  passed bigint[] not null default array_fill(null::bigint, '{11}'),
  free_at timestamptz not null default '-infinity',
  due_at timestamptz,
  primary key (key, version)
) with (autovacuum_vacuum_cost_delay = 0, autovacuum_vacuum_scale_factor = 0.05);
comment on table holdfast.lane is
  'Lanes that have jobs which run, may run, or are parked, or whose rate is not rested. Each has one row. Every change gives it the next version, and who looks begins with the highest: so nobody walks over versions that a forgotten transaction keeps.';
comment on column holdfast.lane.key is 'The key of its name, as lock_key() makes it from the key of the queue and lane/<name>.';
comment on column holdfast.lane.version is 'Counts its changes.';
comment on column holdfast.lane.queue is 'The key of its queue.';
comment on column holdfast.lane.name is 'Its name, one of those of the queue.';
comment on column holdfast.lane.max is 'How many of its jobs may stand in the table job.';
comment on column holdfast.lane.every is 'How many microseconds one admission takes of its rate; null when it has no rate.';
comment on column holdfast.lane.burst is 'How many its rate admits at once, after a rest.';
comment on column holdfast.lane.told_by is 'The latest job that entered: its max and rate are those of the lane.';
comment on column holdfast.lane.active is 'How many of its jobs stand in the table job, or left it and were not followed up.';
comment on column holdfast.lane.passed is
  'For each priority, the larger first, below which place nobody is parked any more; null where nobody is parked at all.';
comment on column holdfast.lane.free_at is 'When its rate will have rested.';
comment on column holdfast.lane.due_at is 'When somebody has to look at it, without that one of its jobs ends or comes.';
create index lane_due_at on holdfast.lane (due_at) where due_at is not null;

create table holdfast.loose_end (
  number bigint primary key default nextval('holdfast.job_number'),
  session integer not null,
  tied jsonb not null
);
comment on table holdfast.loose_end is
  'Jobs with ties that left the table job, or ended, and what follows from it for others has not been done. Whoever ended them does it at once; those of the dead are found by the rounds.';
comment on column holdfast.loose_end.number is 'Its number.';
comment on column holdfast.loose_end.session is 'The number of the life that ended the job; 0 when it was ended from outside.';
comment on column holdfast.loose_end.tied is 'The job: id, queue, kind, state and ties; placed is false when it did not stand in the table job.';
create index loose_end_session on holdfast.loose_end (session);

create table holdfast.dependency (
  needs bigint not null,
  job bigint not null,
  primary key (needs, job)
);
comment on table holdfast.dependency is
  'Which jobs wait for which. A row goes when the job that is needed has ended, unless it failed and the other waits until it was retried.';
comment on column holdfast.dependency.needs is 'The job that has to end.';
comment on column holdfast.dependency.job is 'The job that waits, in the stage jobs of the table waiting.';
create index dependency_job on holdfast.dependency (job);

-- Inlined, which a setting would prevent. So it names each operator with its schema.
create function holdfast.job_holds_back(state text, if_failed text) returns boolean
  language sql immutable
  as $$
    select state operator(pg_catalog.=) any(array['ready', 'running', 'waiting'])
      or state operator(pg_catalog.=) any(array['cancelled', 'buried']) and if_failed operator(pg_catalog.=) 'wait'
  $$;
comment on function holdfast.job_holds_back(text, text) is
  'Whether a job in this state holds back a job that waits for it, whose ties have this ifFailed. A job that has ended does so only if it failed and the other waits for its retry; otherwise the other is being released, or cancelled.';

create function holdfast.job_needs(jobs bigint[], most integer) returns table (job bigint, needs bigint, state text)
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    with held as materialized (
      select * from holdfast.job_held()
    )
    select waiting.id, needed.needs, needed.state
    from unnest(jobs) as asked (id)
    join holdfast.waiting on waiting.id = asked.id and waiting.stage = 'jobs'
    cross join lateral (
      select d.needs, found.state
      -- In their order before anything else is read of them: there may be thousands.
      from (select dependency.needs from holdfast.dependency where dependency.job = waiting.id order by needs offset 0) as d
      cross join lateral (
        select coalesce(
          (
            select case when coalesce(j.session, held.session) is null then 'ready' else 'running' end
            from holdfast.job j
            left join held on j.session is null and held.id = j.id and j.seq <= held.upto
            where j.id = d.needs
          ),
          (select 'waiting' from holdfast.waiting w where w.id = d.needs),
          (select h.state from holdfast.job_history h where h.id = d.needs order by ended_at desc limit 1)
        ) as state
      ) as found
      where holdfast.job_holds_back(found.state, waiting.ties->>'ifFailed')
      limit most
    ) as needed
  $$;
comment on function holdfast.job_needs(bigint[], integer) is
  'What these jobs wait for, and where that is: the jobs that hold them back, at most so many for each.';

create function holdfast.job_bind(ties jsonb, queue bigint, delay_ms bigint, run_at timestamptz) returns jsonb
  language sql
  as $$
    select case
        when ties ? 'lane'
        then jsonb_set(ties, '{lane,key}', to_jsonb(holdfast.lock_key(queue::text, 'lane/' || (ties->'lane'->>'name'))))
        else ties
      end
      || case
        when ties ? 'after' and coalesce(delay_ms, 0) > 0
        then jsonb_build_object('runAt', clock_timestamp() + make_interval(secs => delay_ms / 1000.0))
        when ties ? 'after' and run_at is not null
        then jsonb_build_object('runAt', run_at)
        else '{}'
      end
  $$;
comment on function holdfast.job_bind(jsonb, bigint, bigint, timestamptz) is
  'Ties as they are written: with the key of the lane, and the time before which it may not run, if others must go before it.';

create function holdfast.job_loosen(tied jsonb) returns bigint[]
  language sql
  set search_path = pg_catalog, pg_temp
  as $$
    with loosened as (
      insert into holdfast.loose_end (session, tied)
      select coalesce((one->>'session')::integer, 0), one - 'session'
      from jsonb_array_elements(tied) as one
      where (one->'ties' ? 'lane' and coalesce((one->>'placed')::boolean, true))
        or (one->'ties' ? 'awaited' and one->>'state' <> 'retried')
      returning number
    )
    select array_agg(number) from loosened
  $$;
comment on function holdfast.job_loosen(jsonb) is
  'Writes down the jobs from whose leaving something follows for others; as in job_settle. Answers with their numbers, for job_tie_up.';

create function holdfast.job_call() returns void
  language sql
  set search_path = pg_catalog, pg_temp
  as $$
    select pg_notify(holdfast.job_channel(), 'jobs-due ' || session)
    from (select session from holdfast.worker order by not sleeping, random() limit 1) as chosen
  $$;
comment on function holdfast.job_call() is 'Calls for a round, by one of the workers.';

create function holdfast.lane_is_empty(passed bigint[]) returns boolean
  language sql immutable
  as $$ select array_remove(passed, null) = '{}' $$;
comment on function holdfast.lane_is_empty(bigint[]) is 'Whether nobody is parked in a lane.';

create function holdfast.lane_room(max integer, active integer, every bigint, burst integer, free_at timestamptz, at timestamptz)
  returns integer
  language sql immutable
  as $$
    select greatest(0, least(
      max - active,
      case
        when every is null then max
        else floor((burst * every - extract(epoch from greatest(free_at, at) - at) * 1e6) / every)
      end,
      500
    ))::integer
  $$;
comment on function holdfast.lane_room(integer, integer, bigint, integer, timestamptz, timestamptz) is
  'How many jobs a lane may admit now; at most 500 at a time.';

create function holdfast.lane_fill(keys bigint[], gone integer[]) returns integer
  language plpgsql
  -- One plan, by index, whatever the table looked like when it was made.
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set plan_cache_mode = force_generic_plan
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    now constant timestamptz := clock_timestamp();
    chosen bigint[];
    chosen_keys bigint[];
    moved integer := 0;
  begin
    -- Whoever is just being cancelled, or changed, is passed by, and looked at again soon.
    select array_agg(next.id), array_agg(next.lane)
    into chosen, chosen_keys
    from unnest(keys, gone) as t (key, gone)
    cross join lateral (
      select * from holdfast.lane where lane.key = t.key order by version desc limit 1
    ) as l
    cross join lateral (select holdfast.lane_room(max, active - t.gone, every, burst, free_at, now) as room) as r
    cross join lateral (
      select parked.*
      from unnest(l.passed) with ordinality as level (passed, at)
      cross join lateral (
        select waiting.id, waiting.lane
        from holdfast.waiting
        where waiting.lane = l.key
          and waiting.rank = level.at - 6
          and waiting.seq > level.passed
          and waiting.stage = 'lane'
        order by waiting.seq
        limit r.room
        for update skip locked
      ) as parked
      where level.passed is not null
        and r.room > 0
      order by level.at
      limit r.room
    ) as next;
    if chosen is not null then
      moved := holdfast.job_ready(chosen);
    end if;
    update holdfast.lane
    set version = l.version + 1,
        active = l.active - l.gone + l.more,
        passed = l.first,
        free_at = case when l.every is null or l.more = 0 then l.free_at else l.rested_at end,
        due_at = case
          when holdfast.lane_is_empty(l.first) then
            case when l.every is not null and l.active - l.gone + l.more = 0 then l.rested_at end
          when l.active - l.gone + l.more >= l.max then null
          else greatest(
            now + interval '20 ms',
            l.rested_at - make_interval(secs => (l.burst - 1) * l.every / 1e6)
          )
        end
    from (
      select
        l.*,
        t.gone,
        more,
        case when l.every is null then now else greatest(l.free_at, now) + make_interval(secs => more * l.every / 1e6) end
          as rested_at,
        array(
          select (
            select waiting.seq - 1
            from holdfast.waiting
            where waiting.lane = l.key
              and waiting.rank = level.at - 6
              and waiting.seq > level.passed
              and waiting.stage = 'lane'
            order by waiting.seq
            limit 1
          )
          from unnest(l.passed) with ordinality as level (passed, at)
          order by level.at
        ) as first
      from unnest(keys, gone) as t (key, gone)
      cross join lateral (
        select * from holdfast.lane where lane.key = t.key order by version desc limit 1
      ) as l
      left join (select key, count(*)::integer as found from unnest(chosen_keys) as key group by key) as c on c.key = l.key
      cross join lateral (select coalesce(c.found, 0) as more) as m
    ) as l
    where lane.key = l.key
      and lane.version = l.version;
    delete from holdfast.lane
    using unnest(keys) as k (key)
    where lane.key = k.key
      and lane.version = (select version from holdfast.lane as l where l.key = k.key order by version desc limit 1)
      and lane.active = 0
      and holdfast.lane_is_empty(lane.passed)
      and (lane.every is null or lane.free_at <= now);
    return moved;
  end
  $$;
comment on function holdfast.lane_fill(bigint[], integer[]) is
  'So many jobs of each lane are gone: lets the next that are parked there run, as far as its limits allow, and removes lanes that nobody needs. Answers how many moved.';

create function holdfast.lane_enter(ids bigint[]) returns integer
  language plpgsql
  -- One plan, by index, whatever the table looked like when it was made.
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set plan_cache_mode = force_generic_plan
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    now constant timestamptz := clock_timestamp();
    ready bigint[];
    crowded bigint[];
    moved integer := 0;
  begin
    -- What the latest of them says of the lane, if no later one was here before.
    with told as materialized (
      select distinct on (p.key) p.*, w.queue, w.id
      from holdfast.waiting w
      cross join lateral jsonb_to_record(w.ties->'lane') as p (key bigint, name text, max integer, every bigint, burst integer)
      where w.id = any(ids)
      order by p.key, w.id desc
    ),
    known as materialized (
      select told.key, l.version
      from told
      cross join lateral (
        select * from holdfast.lane where lane.key = told.key order by version desc limit 1
      ) as l
    ),
    made as (
      insert into holdfast.lane (key, queue, name, max, every, burst, told_by)
      select key, queue, name, max, every, burst, id
      from told
      where not exists (select from known where known.key = told.key)
    )
    update holdfast.lane
    set version = lane.version + 1,
        max = told.max,
        every = told.every,
        burst = told.burst,
        told_by = told.id
    from known
    join told on told.key = known.key
    where lane.key = known.key
      and lane.version = known.version
      and lane.told_by < told.id
      and (lane.max, lane.every, lane.burst) is distinct from (told.max, told.every, told.burst);
    -- Where nobody is parked, the first go on as far as there is room. All others are parked in their order.
    with entrant as materialized (
      select
        w.id, l.key, l.version, (-w.priority)::smallint as rank,
        case when holdfast.lane_is_empty(l.passed)
          then holdfast.lane_room(l.max, l.active, l.every, l.burst, l.free_at, now)
          else 0
        end as room,
        row_number() over (partition by l.key order by w.priority desc, w.run_at, w.id) as place
      from holdfast.waiting w
      cross join lateral (
        select * from holdfast.lane where lane.key = (w.ties->'lane'->>'key')::bigint order by version desc limit 1
      ) as l
      where w.id = any(ids)
    ),
    parked as (
      update holdfast.waiting
      set stage = 'lane',
          lane = numbered.key,
          rank = numbered.rank,
          seq = numbered.number
      from (
        select in_order.*, nextval('holdfast.job_number') as number
        from (select * from entrant where place > room order by key, place) as in_order
        offset 0
      ) as numbered
      where waiting.id = numbered.id
      returning waiting.lane as key, waiting.rank, waiting.seq
    ),
    level as materialized (
      select key, array_agg(rank) as ranks, array_agg(passed) as passed
      from (select key, rank, min(seq) - 1 as passed from parked group by key, rank) as first
      group by key
    ),
    counted as materialized (
      select entered.*, level.ranks, level.passed
      from (
        select key, version, count(*) filter (where place <= room)::integer as more, max(id) as latest
        from entrant
        group by key, version
      ) as entered
      left join level on level.key = entered.key
    ),
    changed as (
      update holdfast.lane
      set version = lane.version + 1,
          active = lane.active + c.more,
          told_by = greatest(told_by, c.latest),
          free_at = case
            when every is null or c.more = 0 then free_at
            else greatest(free_at, now) + make_interval(secs => c.more * every / 1e6)
          end,
          -- It is in use again; lane_fill says when to look at it.
          due_at = null,
          passed = array(
            select coalesce(p.passed, c.passed[array_position(c.ranks, (p.at - 6)::smallint)])
            from unnest(lane.passed) with ordinality as p (passed, at)
            order by p.at
          )
      from counted c
      where lane.key = c.key
        and lane.version = c.version
      returning lane.key, lane.passed
    )
    select
      (select array_agg(id) from entrant where place <= room),
      (select array_agg(key) from changed where not holdfast.lane_is_empty(passed))
    into ready, crowded;
    if ready is not null then
      moved := holdfast.job_ready(ready);
    end if;
    -- Some may have room: its max was raised, or its rate says when.
    if crowded is not null then
      moved := moved + holdfast.lane_fill(crowded, array_fill(0, array[cardinality(crowded)]));
    end if;
    return moved;
  end
  $$;
comment on function holdfast.lane_enter(bigint[]) is
  'Waiting jobs that are due, locked by the caller, come to their lanes: they may run, or are parked. Answers how many may run now.';

create function holdfast.job_cancel_after(ids bigint[], reasons text[]) returns void
  language plpgsql
  -- One plan, by index, whatever the table looked like when it was made.
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set plan_cache_mode = force_generic_plan
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    tied jsonb;
  begin
    with gone as (
      delete from holdfast.waiting
      using unnest(ids, reasons) as e (id, reason)
      where waiting.id = e.id
      returning waiting.*, e.reason
    ),
    kept as (
      insert into holdfast.job_history
        (id, queue, priority, kind, payload, state, error, enqueued_at, failed, crashes, max_crashes, log, failures, ties)
      select id, queue, priority, kind, payload, 'cancelled',
        json_build_object('name', 'JobCancelledError', 'message', reason, 'code', 'JOB_CANCELLED'),
        enqueued_at, failed, crashes, max_crashes, log, failures, ties
      from gone
      returning id, queue, kind, ties
    )
    select jsonb_agg(
      jsonb_build_object('id', id, 'queue', queue, 'kind', kind, 'state', 'cancelled', 'ties', ties, 'placed', false)
    )
    into tied
    from kept;
    delete from holdfast.dependency where job = any(ids);
    perform holdfast.job_settle(tied);
  end
  $$;
comment on function holdfast.job_cancel_after(bigint[], text[]) is
  'Waiting jobs, locked by the caller, end as cancelled, because what they wait for did not come to its end.';

create function holdfast.job_await(ids bigint[]) returns bigint[]
  language plpgsql
  -- One plan, by index, whatever the table looked like when it was made.
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set plan_cache_mode = force_generic_plan
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    unmarked bigint[];
    retriable bigint[];
    marked bigint[];
    unsure bigint[];
    failed bigint[];
    reasons text[];
    met bigint[];
    pairs jsonb;
  begin
    delete from holdfast.dependency where job = any(ids);
    -- In one snapshot each of them stands in one table, or nowhere: then it ended longer ago than the history is kept.
    with pair as materialized (
      select distinct w.id as job, w.ties->>'ifFailed' as if_failed, needs.id::bigint as needs
      from holdfast.waiting w
      cross join lateral jsonb_array_elements_text(w.ties->'after') as needs (id)
      where w.id = any(ids)
    ),
    judged as materialized (
      select
        pair.*, live.*,
        not live.is_live and coalesce((
          select state in ('cancelled', 'buried') from holdfast.job_history where id = needs order by ended_at desc limit 1
        ), false) as is_failed
      from pair
      cross join lateral (
        select coalesce(bool_or(true), false) as is_live, coalesce(bool_or(ties ? 'awaited'), false) as is_awaited
        from (
          select ties from holdfast.job where id = needs
          union all
          select ties from holdfast.waiting where id = needs
        ) as found
      ) as live
    )
    select
      coalesce(jsonb_agg(jsonb_build_array(job, needs)) filter (
        where is_live or (is_failed and if_failed = 'wait')
      ), '[]'),
      coalesce(array_agg(distinct needs) filter (where is_live and not is_awaited), '{}'),
      coalesce(array_agg(distinct needs) filter (where is_failed and if_failed = 'wait'), '{}'),
      coalesce(array_agg(distinct job) filter (where is_failed and if_failed is null), '{}')
    into pairs, unmarked, retriable, failed
    from judged;
    if failed <> '{}' then
      reasons := array(
        select (
          select format('The job %s, which it waited for, was %s', h.id, h.state)
          from holdfast.waiting w
          cross join lateral jsonb_array_elements_text(w.ties->'after') with ordinality as needs (id, at)
          join holdfast.job_history h on h.id = needs.id::bigint and h.state in ('cancelled', 'buried')
          where w.id = job
          order by needs.at
          limit 1
        )
        from unnest(failed) with ordinality as f (job, at)
        order by at
      );
      perform holdfast.job_cancel_after(failed, reasons);
    end if;
    -- From now on what follows from their ends is written down. Whoever is just changing one of them is not waited for, and
    -- one that has ended meanwhile, be it just above, is not marked either: then it is judged again.
    with in_job as (
      update holdfast.job
      set ties = coalesce(ties, '{}') || '{"awaited": true}',
          -- A cursor may have passed it while it was locked; but not the place of one that somebody has.
          seq = case when session is null and holdfast.job_at_rest(id) then nextval('holdfast.job_number') else seq end
      where id = any(array(select id from holdfast.job where id = any(unmarked) order by id for update skip locked))
      returning id
    ),
    in_waiting as (
      update holdfast.waiting
      set ties = coalesce(ties, '{}') || '{"awaited": true}'
      where id = any(array(select id from holdfast.waiting where id = any(unmarked) order by id for update skip locked))
      returning id
    ),
    in_history as (
      update holdfast.job_history
      set ties = coalesce(ties, '{}') || '{"awaited": true}'
      where (id, ended_at) in (
        select id, ended_at
        from holdfast.job_history
        where id = any(retriable)
          and state in ('cancelled', 'buried')
        for update skip locked
      )
      returning id
    )
    select coalesce(array_agg(id), '{}')
    into marked
    from (select * from in_job union all select * from in_waiting union all select * from in_history) as all_of_them;
    unmarked := array((select unnest(unmarked) union select unnest(retriable)) except select unnest(marked));
    select coalesce(array_agg(distinct (one->>0)::bigint), '{}')
    into unsure
    from jsonb_array_elements(pairs) as one
    where (one->>1)::bigint = any(unmarked);
    -- Those come again soon.
    update holdfast.waiting
    set run_at = clock_timestamp() + interval '20 ms'
    where id = any(unsure);
    with pair as materialized (
      select (one->>0)::bigint as job, (one->>1)::bigint as needs from jsonb_array_elements(pairs) as one
    ),
    certain as materialized (
      select job, needs from pair where not job = any(unsure) and not job = any(failed)
    ),
    written as (
      insert into holdfast.dependency (needs, job) select needs, job from certain
    )
    update holdfast.waiting
    set stage = 'jobs',
        missing = counted.missing
    from (select job, count(*)::integer as missing from certain group by job) as counted
    where waiting.id = counted.job;
    select coalesce(array_agg(id), '{}')
    into met
    from unnest(ids) as asked (id)
    where not id = any(unsure)
      and not id = any(failed)
      and id not in (select (one->>0)::bigint from jsonb_array_elements(pairs) as one);
    update holdfast.waiting
    set ties = ties || '{"met": true}',
        run_at = coalesce((ties->>'runAt')::timestamptz, run_at)
    where id = any(met);
    return met;
  end
  $$;
comment on function holdfast.job_await(bigint[]) is
  'Jobs that others must go before, locked by the caller: they begin to wait for those that have not ended, or are cancelled. Answers with those that need not wait.';

create function holdfast.job_release(ended jsonb, most integer, out released bigint[], out is_all boolean)
  language plpgsql
  -- One plan, by index, whatever the table looked like when it was made.
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set plan_cache_mode = force_generic_plan
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    reached integer;
    failed bigint[];
    reasons text[];
  begin
    -- Who wants to wait until it was retried is passed by.
    with over as materialized (
      select id, state, state in ('cancelled', 'buried') as is_failed
      from jsonb_to_recordset(ended) as e (id bigint, state text)
    ),
    reached_now as materialized (
      select w.id, over.id as needs, over.state, over.is_failed and not w.ties ? 'ifFailed' as is_cancelled
      from over
      join holdfast.dependency d on d.needs = over.id
      join holdfast.waiting w on w.id = d.job and w.stage = 'jobs'
      where not over.is_failed
        or w.ties->>'ifFailed' is distinct from 'wait'
      limit most
      for update of w skip locked
    ),
    gone as (
      delete from holdfast.dependency
      using reached_now
      where dependency.needs = reached_now.needs
        and dependency.job = reached_now.id
    ),
    cancelled as materialized (
      select distinct on (id) id, format('The job %s, which it waited for, was %s', needs, state) as reason
      from reached_now
      where is_cancelled
      order by id, needs
    ),
    counted as materialized (
      select id, count(*)::integer as ended from reached_now group by id having not bool_or(is_cancelled)
    ),
    fewer as (
      update holdfast.waiting
      set missing = missing - counted.ended,
          stage = case when missing > counted.ended then 'jobs' else 'time' end,
          run_at = case when missing > counted.ended then run_at else coalesce((ties->>'runAt')::timestamptz, run_at) end,
          ties = case when missing > counted.ended then ties else ties || '{"met": true}' end
      from counted
      where waiting.id = counted.id
      returning waiting.id, waiting.stage
    )
    select
      (select count(*) from reached_now),
      (select coalesce(array_agg(id), '{}') from fewer where stage = 'time'),
      (select array_agg(id order by id) from cancelled),
      (select array_agg(reason order by id) from cancelled)
    into reached, released, failed, reasons;
    if failed is not null then
      perform holdfast.job_cancel_after(failed, reasons);
    end if;
    is_all := reached < most and not exists (
      select
      from jsonb_to_recordset(ended) as e (id bigint, state text)
      join holdfast.dependency d on d.needs = e.id
      join holdfast.waiting w on w.id = d.job and w.stage = 'jobs'
      where e.state not in ('cancelled', 'buried')
        or w.ties->>'ifFailed' is distinct from 'wait'
    );
  end
  $$;
comment on function holdfast.job_release(jsonb, integer) is
  'Jobs that others wait for have ended: those that wait for nothing else are released (and answered), or cancelled with them; so many at a time.';

create function holdfast.job_tie_up(numbers bigint[], ids bigint[], session integer, out moved integer, out due_ms integer)
  language plpgsql
  -- One plan, by index, whatever the table looked like when it was made.
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set plan_cache_mode = force_generic_plan
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    keys bigint[];
    gone integer[];
    ended jsonb;
    released bigint[];
    is_all boolean;
  begin
    -- A crash that forgets it leaves the loose ends as well, and the rounds find them.
    perform set_config('synchronous_commit', 'off', true);
    perform pg_advisory_xact_lock(holdfast.session_class() # 2, 2);
    moved := 0;
    if session is not null then
      numbers := numbers || array(select number from holdfast.loose_end where loose_end.session = job_tie_up.session limit 1000);
    end if;
    with tied as (
      delete from holdfast.loose_end where number = any(numbers) returning loose_end.tied
    ),
    counted as (
      select key, sum(jobs)::integer as jobs
      from (
        select (tied->'ties'->'lane'->>'key')::bigint as key, 1 as jobs
        from tied
        where tied->'ties' ? 'lane'
          and coalesce((tied->>'placed')::boolean, true)
        union all
        select key, 0 from (
          select key from holdfast.lane where due_at <= clock_timestamp() order by due_at limit 500
        ) as due
      ) as changed
      group by key
    )
    select
      (select array_agg(key order by key) from counted),
      (select array_agg(jobs order by key) from counted),
      (
        select jsonb_agg(jsonb_build_object('id', tied->'id', 'state', tied->'state'))
        from tied
        where tied->'ties' ? 'awaited'
          and tied->>'state' <> 'retried'
      )
    into keys, gone, ended;
    if ended is not null then
      select r.released, r.is_all into released, is_all from holdfast.job_release(ended, 2000) as r;
      ids := ids || released;
      if not is_all then
        insert into holdfast.loose_end (session, tied)
        select 0, one || '{"ties": {"awaited": true}, "placed": false}' from jsonb_array_elements(ended) as one;
      end if;
    end if;
    if keys is not null then
      moved := holdfast.lane_fill(keys, gone);
    end if;
    if cardinality(ids) > 0 then
      moved := moved + holdfast.job_admit(ids);
    end if;
    if exists (select from holdfast.loose_end where loose_end.session = 0) then
      due_ms := 0;
      return;
    end if;
    select greatest(1, ceil(extract(epoch from min(at) - clock_timestamp()) * 1000))::integer
    into due_ms
    from (
      -- What is due in a month would be more than an integer holds.
      (select due_at from holdfast.lane where due_at < clock_timestamp() + interval '1 day' order by due_at limit 1)
      union all
      (select run_at from holdfast.waiting where stage = 'time' and run_at < clock_timestamp() + interval '1 s' order by run_at limit 1)
    ) as next (at)
    having count(*) > 0;
  end
  $$;
comment on function holdfast.job_tie_up(bigint[], bigint[], integer) is
  'Follows up loose ends with these numbers, and those of a life; then admits waiting jobs. One at a time, for an instant. Answers how many jobs may run now, and when there is more to do: 0 says that it is loose ends of nobody (session 0).';

create function holdfast.job_enqueue_workflow(jobs json) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    insert into holdfast.waiting (id, queue, priority, kind, payload, max_crashes, run_at, ties)
    select
      -- A payload of null is read as none.
      id, queue, priority, kind, coalesce(payload, 'null'), max_crashes,
      case
        when ties ? 'after' then clock_timestamp()
        else coalesce(run_at, clock_timestamp() + make_interval(secs => coalesce(delay_ms, 0) / 1000.0))
      end,
      holdfast.job_bind(ties, queue, delay_ms, run_at)
    from json_to_recordset(jobs)
      as j (id bigint, queue bigint, kind text, priority smallint, max_crashes smallint, delay_ms bigint,
        run_at timestamptz, ties jsonb, payload json);
    perform holdfast.job_call();
  end
  $$;
comment on function holdfast.job_enqueue_workflow(json) is
  'Enqueues jobs with ids that were drawn before, all of one workflow, or none.';

create function holdfast.lane_faults() returns table (key bigint, name text, active integer, counted bigint)
  language sql stable
  set search_path = pg_catalog, pg_temp
  set jit = off
  as $$
    with placed as (
      select (ties->'lane'->>'key')::bigint as key from holdfast.job where ties ? 'lane'
      union all
      select (tied->'ties'->'lane'->>'key')::bigint
      from holdfast.loose_end
      where tied->'ties' ? 'lane' and coalesce((tied->>'placed')::boolean, true)
    ),
    counted as (
      select placed.key, count(*) as jobs from placed group by placed.key
    )
    select coalesce(lane.key, counted.key), lane.name, lane.active, coalesce(counted.jobs, 0)
    from holdfast.lane
    full join counted on counted.key = lane.key
    where lane.active is distinct from coalesce(counted.jobs, 0)
  $$;
comment on function holdfast.lane_faults() is 'Lanes whose count of jobs is not what is there. There must be none, at any moment.';
