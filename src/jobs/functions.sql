-- Functions of the job queue. src/jobs/README.md describes the protocol.

create or replace function holdfast.job_active_workers() returns setof holdfast.worker
  language sql
  set search_path = pg_catalog, pg_temp
  as $$
    select worker.*
    from holdfast.worker
    where kinds <> '{}'
      and session = any(array(
        select session
        from (select distinct session from holdfast.worker offset 0) as known
        where holdfast.is_present(session)
      ))
  $$;
comment on function holdfast.job_active_workers() is 'Returns the workers that are claiming jobs: live workers that are not closing.';

create or replace function holdfast.job_unserved(queues bigint[], kinds text[]) returns table (queue bigint, kind text, unserved text)
  language sql
  set search_path = pg_catalog, pg_temp
  as $$
    with serving as materialized (
      select distinct s.queues, s.kinds from holdfast.job_active_workers() as s
    )
    select
      asked.queue, asked.kind,
      case when exists (select from serving where asked.queue = any(serving.queues)) then 'kind' else 'queue' end
    from (select distinct a.queue, a.kind from unnest(queues, kinds) as a (queue, kind)) as asked
    where not exists (
      select from serving where asked.queue = any(serving.queues) and asked.kind = any(serving.kinds)
    )
  $$;
comment on function holdfast.job_unserved(bigint[], text[]) is
  'Returns each pair of a queue and a kind whose jobs no worker claims. unserved is queue if no worker serves the queue, and kind if no '
  'worker of the queue has a definition of the kind.';

create or replace function holdfast.notification_channel() returns text
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$ select nspname::text from pg_class join pg_namespace on pg_namespace.oid = relnamespace where pg_class.oid = 'holdfast.job'::regclass $$;
comment on function holdfast.notification_channel() is 'Returns the channel on which all instances listen: the name of this schema.';

create or replace function holdfast.job_wake(queue bigint, jobs bigint) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    chosen text;
  begin
    -- Wakes one random worker per job, so that the jobs are spread over all idle workers.
    select string_agg(sleeper, ',')
    into chosen
    from (
      select session || '.' || number as sleeper
      from holdfast.worker
      where sleeping
        and job_wake.queue = any(queues)
      order by random()
      limit least(jobs, 32)
    ) s;
    if chosen is not null then
      perform pg_notify(holdfast.notification_channel(), 'jobs-ready ' || chosen);
    end if;
  end
  $$;
comment on function holdfast.job_wake(bigint, bigint) is
  'Wakes idle workers of a queue. Sends no notification if all workers are busy, because a notification would slow down every commit.';

create or replace function holdfast.job_record_queue(key bigint, namespace text, name text) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    perform from holdfast.queue where queue.key = job_record_queue.key;
    -- The transaction that is inserting the name may be long, so this function does not wait for it.
    if not found and pg_try_advisory_xact_lock(holdfast.lock_class('queue'), key::bit(32)::integer) then
      insert into holdfast.queue (key, namespace, name)
      values (job_record_queue.key, job_record_queue.namespace, job_record_queue.name)
      on conflict on constraint queue_pkey do nothing;
    end if;
  end
  $$;
comment on function holdfast.job_record_queue(bigint, text, text) is 'Stores a queue''s name, which is shown to people.';

create or replace function holdfast.check_job_number() returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    floor bigint;
  begin
    if holdfast.noticed_generation() is not null then
      return;
    end if;
    -- Does not use advance_fence(), which would keep its row locked until the user's transaction ends.
    floor := holdfast.largest_job_number();
    -- In a new installation, ids start at 1.
    if floor > (select last_value - (not is_called)::integer from holdfast.job_number)
      or not exists (select from holdfast.server_generation where generation = 0)
    then
      floor := greatest(floor, holdfast.clock_floor());
    end if;
    perform holdfast.raise_sequence('holdfast.job_number', floor, false);
  end
  $$;
comment on function holdfast.check_job_number() is
  'Must be called before ids are assigned to new jobs. After a restart, failover or restore that no instance has detected yet, it moves '
  'job_number past all ids that were used before.';

create or replace function holdfast.job_enqueue(heads json, inputs json) returns bigint[]
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    ids bigint[];
  begin
    perform holdfast.check_job_number();
    -- Assigns the transaction id before the numbers. Look-backs rely on this order to determine which numbers can still appear.
    perform pg_current_xact_id();
    with enqueued as (
      insert into holdfast.job (id, seq, queue, priority, kind, payload, max_crashes, links)
      select number, number, queue, priority, kind, payload, max_crashes, links
      from (
        select nextval('holdfast.job_number') as number, h.queue, h.priority, h.kind, e.payload, h.max_crashes, h.links
        from json_to_recordset(heads)
          as h (queue bigint, kind text, priority smallint, max_crashes smallint, links jsonb, after_input integer, last_input integer)
        join json_array_elements(inputs) with ordinality as e (payload, at) on at > h.after_input and at <= h.last_input
        offset 0
      ) as numbered
      returning id
    )
    select array_agg(id) into ids from enqueued;
    if exists (select from holdfast.worker where sleeping) then
      perform holdfast.job_wake(h.queue, sum(h.last_input - h.after_input)::bigint)
      from json_to_recordset(heads) as h (queue bigint, after_input integer, last_input integer)
      group by h.queue;
    end if;
    return ids;
  end
  $$;
comment on function holdfast.job_enqueue(json, json) is
  'Enqueues jobs that may run now. Returns their ids in the order of the inputs. A head applies to the inputs after_input + 1 to last_input: '
  '[{"queue": key, "kind": …, "priority": …, "max_crashes": …, "after_input": …, "last_input": …}]. '
  'It may contain "links" with only a trace.';

create or replace function holdfast.job_enqueue_later(heads json, inputs json) returns bigint[]
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    ids bigint[];
  begin
    -- Jobs that are already due do not have to wait for maintenance.
    if not exists (
      select from json_to_recordset(heads) as h (delay_ms bigint, run_at timestamptz)
      where delay_ms > 0 or run_at > clock_timestamp()
    ) then
      return holdfast.job_enqueue(heads, inputs);
    end if;
    perform holdfast.check_job_number();
    with enqueued as (
      insert into holdfast.waiting (id, queue, priority, kind, payload, max_crashes, run_at, links)
      select
        number, queue, priority, kind, payload, max_crashes,
        coalesce(run_at, clock_timestamp() + make_interval(secs => delay_ms / 1000.0)), links
      from (
        select nextval('holdfast.job_number') as number, h.*, e.payload
        from json_to_recordset(heads)
          as h (queue bigint, kind text, priority smallint, max_crashes smallint, delay_ms bigint, run_at timestamptz,
            links jsonb, after_input integer, last_input integer)
        join json_array_elements(inputs) with ordinality as e (payload, at) on at > h.after_input and at <= h.last_input
        offset 0
      ) as numbered
      returning id
    )
    select array_agg(id) into ids from enqueued;
    -- A worker must find out when these jobs are due.
    perform holdfast.job_wake(h.queue, 1)
    from json_to_recordset(heads) as h (queue bigint)
    group by h.queue;
    return ids;
  end
  $$;
comment on function holdfast.job_enqueue_later(json, json) is
  'Enqueues jobs that may not run yet. Like job_enqueue, with "delay_ms" or "run_at" in the heads.';

create or replace function holdfast.job_make_ready(ids bigint[]) returns integer
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    moved integer;
  begin
    with gone as (
      delete from holdfast.waiting where id = any(ids) returning *
    ),
    ready as (
      insert into holdfast.job
        (id, seq, queue, priority, kind, payload, enqueued_at, failed, crashes, max_crashes, log, failures, links)
      select id, nextval('holdfast.job_number'), queue, priority, kind, payload, enqueued_at, failed, crashes, max_crashes,
        log, failures, links
      from (select * from gone order by seq nulls last, run_at, id) as in_order
      returning queue
    ),
    woken as (
      select count(*) as jobs, holdfast.job_wake(queue, count(*)) from ready group by queue
    )
    select coalesce(sum(jobs), 0) into moved from woken;
    return moved;
  end
  $$;
comment on function holdfast.job_make_ready(bigint[]) is
  'Moves waiting jobs, which the caller has locked, to the table job. Returns their number.';

create or replace function holdfast.job_admit(ids bigint[]) returns integer
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    admitted integer := 0;
    free bigint[];
    laned bigint[];
    early bigint[];
  begin
    with asked as materialized (
      select id, stage, run_at, links from holdfast.waiting where id = any(ids) order by id for update skip locked
    )
    select
      array_agg(id) filter (where is_due and not links ? 'lane' and not is_before),
      array_agg(id) filter (where is_due and links ? 'lane' and not is_before),
      array_agg(id) filter (where is_before)
    into free, laned, early
    from asked
    cross join lateral (
      select run_at <= clock_timestamp() as is_due, links ? 'after' and not links ? 'met' as is_before
    ) as facts
    where stage = 'time';
    if free is not null then
      admitted := holdfast.job_make_ready(free);
    end if;
    if laned is not null or early is not null then
      perform pg_advisory_xact_lock(holdfast.lock_class('job follow-ups'), 0);
    end if;
    if early is not null then
      free := holdfast.job_wait_for_dependencies(early);
      if free <> '{}' then
        -- All jobs that they depend on have ended.
        admitted := admitted + holdfast.job_admit(free);
      end if;
    end if;
    if laned is not null then
      admitted := admitted + holdfast.lane_enter(laned);
    end if;
    return admitted;
  end
  $$;
comment on function holdfast.job_admit(bigint[]) is
  'Moves due jobs with links forward, as far as their links allow. Returns the number of jobs that became ready.';

create or replace function holdfast.job_free_keys(linked jsonb) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    -- Skipping locked rows is correct: only a job that takes over an expired window locks the row, and that job then owns the key.
    delete from holdfast.unique_job
    where ctid = any(
      array(
        select held.ctid
        from jsonb_to_recordset(linked) as t (id bigint, queue bigint, kind text, state text, links jsonb)
        join holdfast.unique_job held
          on held.queue = t.queue and held.kind = t.kind and held.key = t.links->'unique'->>'key' and held.id = t.id
        where case t.state
            when 'retried' then false
            when 'running' then held.until = 'started'
            when 'cancelled' then true
            else held.until <> 'window'
          end
        for update of held skip locked
      )
    );
  end
  $$;
comment on function holdfast.job_free_keys(jsonb) is
  'Frees the unique keys of jobs that were claimed (state running) or have left the table job. Takes the same argument as '
  'job_release_links.';

create or replace function holdfast.job_release_links(linked jsonb) returns bigint[]
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    perform holdfast.job_free_keys(linked);
    return holdfast.job_record_follow_ups(linked);
  end
  $$;
comment on function holdfast.job_release_links(jsonb) is
  'Must be called when jobs with links leave the table job or end: [{"id": …, "queue": …, "kind": …, "state": …, "links": …}]. '
  'Frees their keys and records follow-ups. Returns the numbers of the follow-ups for job_run_follow_ups.';

create or replace function holdfast.job_enqueue_linked(heads json, inputs json, is_alone boolean) returns bigint[]
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    ids bigint[];
    free bigint[];
  begin
    perform holdfast.check_job_number();
    with enqueued as (
      insert into holdfast.waiting (id, queue, priority, kind, payload, max_crashes, run_at, links)
      select
        number, queue, priority, kind, payload, max_crashes,
        coalesce(run_at, clock_timestamp() + make_interval(secs => coalesce(delay_ms, 0) / 1000.0)), links
      from (
        select coalesce(h.id, nextval('holdfast.job_number')) as number, h.*, e.payload
        from (
          select
            id, queue, kind, priority, max_crashes, after_input, last_input,
            case when not links ? 'after' then delay_ms end as delay_ms,
            case when not links ? 'after' then run_at end as run_at,
            holdfast.job_resolve_links(links, queue, delay_ms, run_at) as links
          from json_to_recordset(heads)
            as h (id bigint, queue bigint, kind text, priority smallint, max_crashes smallint, delay_ms bigint,
              run_at timestamptz, links jsonb, after_input integer, last_input integer)
          offset 0
        ) as h
        join json_array_elements(inputs) with ordinality as e (payload, at) on at > h.after_input and at <= h.last_input
        offset 0
      ) as numbered
      returning id, links
    )
    select array_agg(id), coalesce(array_agg(id) filter (where not links ?| '{lane,after}'), '{}')
    into ids, free
    from enqueued;
    -- Locks on lanes and dependencies must be short. They must be released before a caller's transaction ends or a commit is flushed. A
    -- caller without a transaction calls job_run_follow_ups next. Otherwise this function requests maintenance.
    if is_alone then
      perform holdfast.job_admit(free);
    elsif cardinality(free) < cardinality(ids) then
      perform holdfast.job_request_maintenance();
    end if;
    -- A worker must find out when these jobs are due.
    perform holdfast.job_wake(h.queue, 1)
    from json_to_recordset(heads) as h (queue bigint)
    group by h.queue;
    return ids;
  end
  $$;
comment on function holdfast.job_enqueue_linked(json, json, boolean) is
  'Enqueues jobs with "links". Like job_enqueue_later. If the call is the only statement in its transaction, it admits jobs that have no '
  'lane and no dependencies. A head with an "id" uses an id that the caller has already reserved.';

create or replace function holdfast.job_lock_waiting(job_id bigint, is_to_change boolean) returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    if is_to_change then
      perform from holdfast.job where id = job_id and session is null for update;
    else
      perform from holdfast.job where id = job_id and session is null for key share;
    end if;
    if found then
      return true;
    end if;
    if is_to_change then
      perform from holdfast.waiting where id = job_id for update;
    else
      perform from holdfast.waiting where id = job_id for key share;
    end if;
    return found;
  end
  $$;
comment on function holdfast.job_lock_waiting(bigint, boolean) is
  'Locks a waiting job, so that no worker claims it until the transaction ends. Returns false if the job is no longer waiting, or is no '
  'longer in the table in which the caller saw it.';

create or replace function holdfast.job_replace(job_id bigint, input json, new_priority smallint, new_run_at timestamptz) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    moved jsonb;
  begin
    -- Clears the failures, because they belong to the old input. A job with a new priority or time gets a new position. A job that is
    -- waiting in its lane enters the lane again. A job with dependencies gets the new time after its dependencies have ended.
    update holdfast.waiting
    set payload = input,
        priority = new_priority,
        stage = case when stage = 'lane' and is_moved then 'time' else stage end,
        lane = case when not is_moved then lane end,
        rank = case when not is_moved then rank end,
        seq = case when not is_moved then seq end,
        run_at = case when stage = 'jobs' then run_at else coalesce(new_run_at, run_at) end,
        links = case when stage = 'jobs' and new_run_at is not null then links || jsonb_build_object('runAt', new_run_at) else links end,
        failed = 0,
        crashes = 0,
        failures = null
    from (
      select new_run_at is not null or w.priority <> new_priority as is_moved from holdfast.waiting w where w.id = job_id
    ) as seen
    where id = job_id;
    if found then
      return;
    end if;
    if new_run_at is null then
      -- A new priority needs a new seq, because cursors of that priority may have passed the old one.
      update holdfast.job
      set payload = input,
          priority = new_priority,
          seq = case when priority = new_priority then seq else nextval('holdfast.job_number') end,
          failed = 0,
          crashes = 0,
          failures = null
      where id = job_id;
      return;
    end if;
    with gone as (
      delete from holdfast.job
      where id = job_id
      returning *
    ),
    delayed as (
      insert into holdfast.waiting (id, queue, priority, kind, payload, enqueued_at, run_at, max_crashes, log, links)
      select id, queue, new_priority, kind, input, enqueued_at, new_run_at, max_crashes, log, links
      from gone
      returning id, queue, kind, links
    )
    select
      jsonb_agg(
        jsonb_build_object('id', id, 'queue', queue, 'kind', kind, 'state', 'retried', 'links', links, 'placed', true)
      )
    into moved
    from delayed;
    if moved is not null then
      perform holdfast.job_release_links(moved);
      perform holdfast.job_request_maintenance();
    end if;
  end
  $$;
comment on function holdfast.job_replace(bigint, json, smallint, timestamptz) is
  'Replaces the input and the priority of a job that job_lock_waiting has locked, and its time unless new_run_at is null.';

create or replace function holdfast.job_enqueue_unique(
  heads json,
  inputs json,
  is_alone boolean,
  patience text,
  out ids bigint[],
  out are_new boolean[]
)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    one record;
    held record;
    number bigint;
    at_once bigint[] := '{}';
    later bigint[] := '{}';
    new_links jsonb;
    is_new boolean;
  begin
    if patience is not null then
      perform set_config('lock_timeout', patience, true);
    end if;
    perform holdfast.check_job_number();
    -- Must run before numbers are assigned. See job_enqueue.
    perform pg_current_xact_id();
    -- The keys are locked in a fixed order, so that two transactions with the same keys cannot deadlock.
    for one in
      select
        a.*,
        a.unique_by->>'key' as key,
        a.unique_by->>'until' as until,
        a.unique_by->>'existing' as existing,
        clock_timestamp() + make_interval(secs => (a.unique_by->>'for_ms')::bigint / 1000.0) as expires_at,
        case
          when a.delay_ms is null then a.run_at
          else clock_timestamp() + make_interval(secs => a.delay_ms / 1000.0)
        end as due_at
      from rows from (
        json_to_recordset(heads) as (queue bigint, kind text, priority smallint, max_crashes smallint, delay_ms bigint,
          run_at timestamptz, links jsonb, "unique" jsonb),
        json_array_elements(inputs)
      ) with ordinality as a (queue, kind, priority, max_crashes, delay_ms, run_at, links, unique_by, payload, at)
      order by a.queue, a.kind collate "C", a.unique_by->>'key' collate "C", a.at
    loop
      loop
        select
          u.id, u.until, u.expires_at <= clock_timestamp() as is_over,
          j.id is not null and j.session is null or w.id is not null as waits,
          j.session is not null as runs
        into held
        from holdfast.unique_job u
        left join holdfast.job j on j.id = u.id
        left join holdfast.waiting w on w.id = u.id
        where u.queue = one.queue
          and u.kind = one.kind
          and u.key = one.key;
        if not found then
          number := nextval('holdfast.job_number');
          insert into holdfast.unique_job (queue, kind, key, id, until, expires_at)
          values (one.queue, one.kind, one.key, number, one.until, one.expires_at)
          on conflict on constraint unique_job_pkey do nothing;
          is_new := found;
          -- Another transaction inserted the key first.
          continue when not is_new;
        elsif held.is_over or held.until <> 'window' and not held.waits and not held.runs then
          -- The window has expired, or the job was deleted by hand.
          number := nextval('holdfast.job_number');
          update holdfast.unique_job
          set id = number,
              until = one.until,
              expires_at = one.expires_at
          where queue = one.queue
            and kind = one.kind
            and key = one.key
            and id = held.id;
          is_new := found;
          continue when not is_new;
        else
          is_new := false;
          number := held.id;
          if held.waits and (one.existing <> 'keep' or held.until = 'started' and not is_alone) then
            continue when not holdfast.job_lock_waiting(held.id, one.existing <> 'keep');
            if one.existing <> 'keep' then
              perform holdfast.job_replace(held.id, one.payload, one.priority, one.due_at);
            end if;
            later := later || one.queue;
          end if;
        end if;
        exit;
      end loop;
      ids[one.at] := number;
      are_new[one.at] := is_new;
      continue when not is_new;
      new_links := coalesce(one.links, '{}') || jsonb_build_object('unique', jsonb_build_object('key', one.key, 'until', one.until));
      if one.links is not null then
        perform holdfast.job_enqueue_linked(
          json_build_array(json_build_object(
            'id', number, 'queue', one.queue, 'kind', one.kind, 'priority', one.priority, 'max_crashes', one.max_crashes,
            'run_at', one.due_at, 'links', new_links, 'after_input', 0, 'last_input', 1
          )),
          json_build_array(one.payload),
          is_alone
        );
      elsif one.due_at is not null then
        insert into holdfast.waiting (id, queue, priority, kind, payload, max_crashes, run_at, links)
        values (number, one.queue, one.priority, one.kind, one.payload, one.max_crashes, one.due_at, new_links);
        later := later || one.queue;
      else
        insert into holdfast.job (id, seq, queue, priority, kind, payload, max_crashes, links)
        values (number, number, one.queue, one.priority, one.kind, one.payload, one.max_crashes, new_links);
        at_once := at_once || one.queue;
      end if;
    end loop;
    perform holdfast.job_wake(queue, jobs)
    from (
      select queue, count(*) as jobs from unnest(at_once) as queue group by queue
      union all
      select distinct queue, 1 from unnest(later) as queue
    ) as news;
  end
  $$;
comment on function holdfast.job_enqueue_unique(json, json, boolean, text) is
  'Enqueues jobs with unique keys, or finds the jobs that hold these keys. There is one head per input, with '
  '"unique": {"key": …, "until": …, "for_ms": …, "existing": …}. patience: maximum wait for a transaction that is writing such a key. '
  'Null: no limit.';

create or replace function holdfast.job_retake_key(job_id bigint, job_queue bigint, job_kind text, links jsonb) returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    wanted constant text := links->'unique'->>'key';
    until_when constant text := links->'unique'->>'until';
  begin
    if wanted is null or until_when = 'window' then
      return true;
    end if;
    insert into holdfast.unique_job as held (queue, kind, key, id, until)
    values (job_queue, job_kind, wanted, job_id, until_when)
    on conflict on constraint unique_job_pkey do update
    set id = excluded.id,
        until = excluded.until,
        expires_at = null
    where held.expires_at <= clock_timestamp();
    return found;
  end
  $$;
comment on function holdfast.job_retake_key(bigint, bigint, text, jsonb) is
  'Claims the unique key for an ended job that will run again. Returns false if another job has the key.';

create or replace function holdfast.job_sweep_keys(max_count integer) returns integer
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    swept integer;
  begin
    delete from holdfast.unique_job
    where ctid = any(
      array(
        select ctid
        from holdfast.unique_job
        where expires_at <= clock_timestamp()
        order by expires_at
        limit max_count
        for update skip locked
      )
    );
    get diagnostics swept = row_count;
    return swept;
  end
  $$;
comment on function holdfast.job_sweep_keys(integer) is 'Deletes up to max_count expired keys. Returns the number of deleted keys.';

create or replace function holdfast.job_cancel(job_id bigint, reason text, out answer text, out follow_ups bigint[])
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    holder_session integer;
    linked jsonb;
    is_found boolean;
  begin
    update holdfast.job
    set cancelled = reason
    where id = job_id
      and session is not null
    returning session into holder_session;
    if found then
      perform pg_notify(holdfast.notification_channel(), 'jobs-cancel-requested ' || holder_session);
      answer := 'told';
      return;
    end if;
    with ready as (
      delete from holdfast.job
      where id = job_id
        and session is null
      returning id, queue, priority, kind, payload, enqueued_at, failed, crashes, max_crashes, log, failures, links
    ),
    waiting as (
      delete from holdfast.waiting
      where id = job_id
      returning id, queue, priority, kind, payload, enqueued_at, failed, crashes, max_crashes, log, failures, links
    ),
    kept as (
      insert into holdfast.job_history
        (id, queue, priority, kind, payload, state, error, enqueued_at, failed, crashes, max_crashes, log, failures, links)
      select id, queue, priority, kind, payload, 'cancelled',
        json_build_object('name', 'JobCancelledError', 'message', reason, 'code', 'JOB_CANCELLED'),
        enqueued_at, failed, crashes, max_crashes, log, failures, links
      from (select * from ready union all select * from waiting) as unstarted
      returning id, queue, kind, links
    )
    select
      count(*) > 0,
      jsonb_agg(
        jsonb_build_object(
          'id', id, 'queue', queue, 'kind', kind, 'state', 'cancelled', 'links', links,
          'placed', exists (select from ready)
        )
      ) filter (where links is not null)
    into is_found, linked
    from kept;
    if linked is not null then
      follow_ups := holdfast.job_release_links(linked);
    end if;
    answer := case when is_found then 'cancelled' end;
  end
  $$;
comment on function holdfast.job_cancel(bigint, text) is
  'Ends a waiting job (cancelled), or requests that a running job stops (told). Returns null if the job does not exist. follow_ups are for '
  'job_run_follow_ups.';

-- The payload may be json, jsonb or text. Separate functions for these types would make a call with a literal such as '{"to": "ada"}'
-- ambiguous, because the literal has no type yet.
create or replace function holdfast.enqueue(
  queue text,
  kind text,
  payload anycompatible,
  priority integer default 0,
  delay interval default null,
  run_at timestamptz default null,
  namespace text default 'default',
  unique_key text default null,
  lane text default null
) returns bigint
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    key constant bigint := holdfast.lock_key(namespace, 'queue/' || queue);
    names constant text := concat_ws(':', queue, kind, unique_key, lane, namespace);
    -- The cast throws if the text is not JSON.
    input constant text := payload::text::json::text;
    heads json;
    inputs json;
  begin
    if coalesce(queue, '') = '' or coalesce(kind, '') = '' or coalesce(namespace, '') = '' then
      raise exception 'Expected a queue, a kind and a namespace, got %, % and %',
        coalesce(quote_literal(queue), 'null'), coalesce(quote_literal(kind), 'null'),
        coalesce(quote_literal(namespace), 'null')
        using errcode = '22023';
    end if;
    if input is null then
      raise exception 'Expected a JSON payload, got null'
        using errcode = '22023',
              hint = 'Write the JSON null as ''null''.';
    end if;
    if priority is null or priority not between -5 and 5 then
      raise exception 'Expected a priority from -5 to 5, got %', coalesce(priority::text, 'null')
        using errcode = '22023';
    end if;
    if lane = '' then
      raise exception 'Expected a lane with at least one character, got an empty string'
        using errcode = '22023';
    end if;
    if octet_length(input) > 1000000 then
      raise exception 'Expected a payload of at most 1000000 bytes of JSON, got %', octet_length(input)
        using errcode = '22023',
              hint = 'Store large data elsewhere, such as in a table of your own, and put a reference to it into the job.';
    end if;
    if unique_key = '' or length(unique_key) > 500 then
      raise exception 'Expected unique_key to have 1 to 500 characters, got %', length(unique_key)
        using errcode = '22023';
    end if;
    -- The library rejects the same names (src/base/missing-values.ts). A test compares both.
    if names ~ '(^|[^[:alnum:]_-])(undefined|NaN|Invalid Date)($|[^[:alnum:]_-])|\[object [A-Za-z]\w*\]' then
      raise exception 'Expected queue, kind, unique_key, lane and namespace to have a value in every part, got "%"', names
        using errcode = '22023',
              hint = 'A template literal interpolated a value that is missing: every caller without it would share this name.';
    end if;
    perform holdfast.job_record_queue(key, namespace, queue);
    inputs := '[' || input || ']';
    heads := json_build_array(json_build_object(
      'queue', key,
      'kind', kind,
      'priority', priority,
      'max_crashes', 3,
      'delay_ms', (extract(epoch from delay) * 1000)::bigint,
      'run_at', run_at,
      'links', case when lane is not null then json_build_object('lane', json_build_object('name', lane, 'max', 1)) end,
      'after_input', 0,
      'last_input', 1,
      'unique', case
        when unique_key is not null then json_build_object('key', unique_key, 'until', 'ended', 'existing', 'keep')
      end
    ));
    if unique_key is not null then
      return (select ids[1] from holdfast.job_enqueue_unique(heads, inputs, false, null));
    end if;
    if lane is not null then
      return (holdfast.job_enqueue_linked(heads, inputs, false))[1];
    end if;
    if delay is null and run_at is null then
      return (holdfast.job_enqueue(heads, inputs))[1];
    end if;
    return (holdfast.job_enqueue_later(heads, inputs))[1];
  end
  $$;
comment on function holdfast.enqueue(text, text, anycompatible, integer, interval, timestamptz, text, text, text) is
  'Enqueues a job from SQL, in the current transaction: '
  'select holdfast.enqueue(''default'', ''send-email'', ''{"to": "a@example.com"}''). '
  'Returns its id, or the id of the job that already has the unique_key.';

create or replace function holdfast.job_claim(
  session integer,
  token bigint,
  queues bigint[],
  priorities integer[],
  cursors bigint[],
  kinds text[],
  max_count integer,
  announces boolean,
  looks_back boolean,
  out state text,
  out fence bigint,
  out jobs text,
  out new_cursors text,
  out oldest text,
  out newest text,
  out last bigint
)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    paused bigint[];
    level integer;
    rows tid[] := '{}';
    more tid[];
    max_seq bigint;
    reached bigint[] := cursors;
    ids bigint[];
    keyed jsonb;
    short integer := max_count;
    is_one_kind constant boolean := cardinality(kinds) = 1;
    now constant timestamptz := clock_timestamp();
  begin
    -- The commit is not flushed, because a crash that loses the claim also ends its epoch and thereby frees the jobs.
    perform set_config('synchronous_commit', 'off', true);
    state := 'in-grace';
    if not holdfast.grace_is_over() then
      return;
    end if;
    -- Blocks job_take_over, which acquires the exclusive lock before it deletes the row in worker.
    perform pg_advisory_xact_lock_shared(holdfast.lock_class('claims of a session'), session);
    perform from holdfast.worker where worker.session = job_claim.session limit 1;
    state := 'gone';
    if not found then
      return;
    end if;
    state := 'claimed';
    if looks_back then
      -- This value is read before the scan, because the scan may not see rows of transactions that are still running.
      oldest := pg_snapshot_xmin(pg_current_snapshot())::text;
      last := (select last_value - (not is_called)::integer from holdfast.job_number);
      -- Uses this transaction's id, which is assigned after last is read: all transactions that were assigned numbers up to last have
      -- smaller ids. pg_snapshot_xmax would be wrong, because transactions that began after the latest completed one have larger ids.
      newest := pg_current_xact_id()::text;
    end if;
    paused := array(select key from holdfast.queue where key = any(queues) and paused_at is not null);
    for level in
      select l.level
      from unnest(queues, priorities, cursors) with ordinality as l (queue, priority, start, level)
      where l.queue <> all(paused)
        and (
          -- Most levels are empty, and this check is cheaper than a locking scan. A look-back skips the check, so that it scans only once.
          looks_back
          or exists (
            select
            from holdfast.job
            where job.queue = l.queue
              and job.priority = l.priority
              and job.seq > l.start
          )
        )
      order by l.level
    loop
      select array_agg(found.ctid), max(found.seq)
      into more, max_seq
      from (
        select job.ctid, job.seq
        from holdfast.job
        where job.queue = queues[level]
          and job.priority = priorities[level]
          and job.seq > cursors[level]
          and job.session is null
          and job.kind = any(kinds)
        order by job.seq
        limit short
        for update skip locked
      ) as found;
      continue when more is null;
      rows := rows || more;
      reached[level] := max_seq;
      short := short - cardinality(more);
      exit when short <= 0;
    end loop;
    if cardinality(rows) > 0 then
      -- The fencing token is assigned while the rows are locked, so that a later claim of one of these jobs has a larger token.
      fence := nextval('holdfast.fence');
      with mine as (
        update holdfast.job
        set session = job_claim.session,
            fence = job_claim.fence,
            claimed_at = now
        where ctid = any(rows)
        returning id, seq, queue, priority, kind, payload, failed, crashes, max_crashes, links
      )
      select
        -- The short form covers most jobs. The long form costs as much as the claim itself.
        '[' || string_agg(
          case
            when seq = id and priority = 0 and failed = 0 and crashes = 0 and max_crashes = 3 and links is null
            then concat('[', id, ',', case when is_one_kind then 1 else array_position(kinds, kind) end, ',', payload, ']')
            else concat(
              '[', id, ',', array_position(kinds, kind), ',', payload, ',', seq, ',', priority, ',', failed, ',', crashes,
              ',', max_crashes, ',', coalesce(links::text, 'null'), ']'
            )
          end,
          ','
        ) || ']',
        array_agg(id),
        jsonb_agg(jsonb_build_object('id', id, 'queue', queue, 'kind', kind, 'state', 'running', 'links', links))
          filter (where links ? 'unique')
      into jobs, ids, keyed
      from mine;
      if keyed is not null then
        perform holdfast.job_free_keys(keyed);
      end if;
      new_cursors := array_to_json(reached)::text;
      insert into holdfast.claim (fence, session, token, jobs) values (fence, session, token, ids);
      if announces then
        perform pg_notify(holdfast.notification_channel(), 'jobs-running ' || session);
      end if;
    end if;
    if cardinality(paused) > 0 then
      -- Jobs in paused queues were not read, so the floor must not rise.
      oldest := null;
    end if;
    if looks_back and short > 0 and exists (
      select
      from unnest(queues, priorities, cursors) as l (queue, priority, start)
      cross join lateral (
        select
        from holdfast.job
        where job.queue = l.queue
          and job.priority = l.priority
          and job.seq > l.start
          and job.session is null
          and job.kind = any(kinds)
          and job.links ? 'unique'
        limit 1
      ) as skipped
    ) then
      -- A transaction that enqueues the same key has locked the job. A later look-back must find it, so the floor must not rise.
      oldest := null;
    end if;
  end
  $$;
comment on function holdfast.job_claim(integer, bigint, bigint[], integer[], bigint[], text[], integer, boolean, boolean) is
  'Claims up to max_count jobs for an epoch, level by level (queue and priority), each after its cursor. '
  'A look-back also returns the values from which Cursors computes the floor.';

create or replace function holdfast.job_failure_details(attempt integer, claimed_at timestamptz, session integer) returns jsonb
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$
    select jsonb_build_object(
      'attempt', attempt,
      'at', clock_timestamp(),
      'claimedAt', claimed_at,
      'instance', (select min(worker.instance) from holdfast.worker where worker.session = job_failure_details.session)
    )
  $$;
comment on function holdfast.job_failure_details(integer, timestamptz, integer) is
  'Describes an attempt that is failing now: its number, times and instance.';

create or replace function holdfast.job_delete_claims(fences bigint[]) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    -- The caller has recorded the outcomes of all jobs. But a failover may have lost an outcome. In this case, the job can only be found
    -- through the claim.
    delete from holdfast.claim
    where fence = any(fences)
      and not exists (
        select
        from holdfast.job
        where job.id = any(claim.jobs)
          and job.fence = claim.fence
      );
  end
  $$;
comment on function holdfast.job_delete_claims(bigint[]) is
  'Deletes claims that no longer own any jobs. If a claim still owns a job, its epoch has ended and maintenance takes the job over.';

create or replace function holdfast.job_done(
  ids bigint[], fences bigint[], results json, emptied bigint[], out recorded bigint[], out follow_ups bigint[]
)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    ended bigint;
    linked jsonb;
  begin
    if results is null then
      with ended as (
        delete from holdfast.job
        using unnest(ids, fences) as e (id, fence)
        where job.id = any(ids)
          and job.id = e.id
          and job.fence = e.fence
        returning job.*
      ),
      kept as (
        insert into holdfast.job_history
          (id, queue, priority, kind, payload, state, enqueued_at, claimed_at, session, fence, failed, crashes, max_crashes,
           progress, log, failures, links)
        select id, queue, priority, kind, payload, 'done', enqueued_at, claimed_at, session, fence, failed, crashes, max_crashes,
          progress, log, failures, links
        from ended
      )
      select
        count(*),
        jsonb_agg(jsonb_build_object('id', id, 'queue', queue, 'kind', kind, 'session', session, 'state', 'done', 'links', links))
          filter (where links is not null)
      into ended, linked
      from ended;
    else
      with ended as (
        delete from holdfast.job
        using rows from (unnest(ids), unnest(fences), json_array_elements(results)) as e (id, fence, result)
        where job.id = any(ids)
          and job.id = e.id
          and job.fence = e.fence
        returning job.*, e.result
      ),
      kept as (
        insert into holdfast.job_history
          (id, queue, priority, kind, payload, state, result, enqueued_at, claimed_at, session, fence, failed, crashes,
           max_crashes, progress, log, failures, links)
        select id, queue, priority, kind, payload, 'done', nullif(substr(result::text, 2, length(result::text) - 2), '')::json, enqueued_at,
          claimed_at, session, fence, failed, crashes, max_crashes, progress, log, failures, links
        from ended
      )
      select
        count(*),
        jsonb_agg(jsonb_build_object('id', id, 'queue', queue, 'kind', kind, 'session', session, 'state', 'done', 'links', links))
          filter (where links is not null)
      into ended, linked
      from ended;
    end if;
    if linked is not null then
      follow_ups := holdfast.job_release_links(linked);
    end if;
    if cardinality(emptied) > 0 then
      perform holdfast.job_delete_claims(emptied);
    end if;
    if ended < cardinality(ids) then
      recorded := array(
        select e.id
        from unnest(ids, fences) as e (id, fence)
        join holdfast.job_history h on h.id = e.id and h.fence = e.fence
      );
    end if;
  end
  $$;
comment on function holdfast.job_done(bigint[], bigint[], json, bigint[]) is
  'Records that jobs are done, and deletes claims that have no jobs left. An outcome is accepted only if the row has the claim''s fencing '
  'token. recorded is null if all outcomes were accepted. Otherwise it lists the jobs whose outcome is recorded, by this call or earlier. '
  'follow_ups are for job_run_follow_ups.';

create or replace function holdfast.job_end(asked json, emptied bigint[], out recorded bigint[], out follow_ups bigint[])
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    linked jsonb;
  begin
    -- Must run before numbers are assigned. See job_enqueue.
    perform pg_current_xact_id();
    -- Locks the rows before it reads them: a cancellation may be in progress, and a cancelled job must not return to the queue.
    with e as materialized (
      select
        e.id,
        e.delay_ms,
        e.failed,
        e.error as failure,
        case when job.cancelled is not null and e.state <> 'discarded' then 'cancelled' else e.state end as state,
        case
          when job.cancelled is not null and e.state not in ('cancelled', 'discarded')
          then jsonb_build_object('name', 'JobCancelledError', 'message', job.cancelled, 'code', 'JOB_CANCELLED')
          else e.error
        end as error
      from json_to_recordset(asked)
        as e (id bigint, fence bigint, state text, error jsonb, delay_ms bigint, failed integer)
      join holdfast.job on job.id = e.id and job.fence = e.fence
      order by e.id
      for update of job
    ),
    ended as (
      delete from holdfast.job
      using e
      where job.id = e.id
        and e.state <> 'returned'
      returning job.*, e.state, e.error, e.failure, e.delay_ms, e.failed as failed_now
    ),
    told as (
      select
        *,
        case
          when failed_now = 0 then failures
          when jsonb_array_length(failures) >= 20 then failures - 0
          else coalesce(failures, '[]')
        end || case
          when failed_now = 0 then '[]'
          else jsonb_build_array(
            failure || holdfast.job_failure_details(failed + crashes + 1, claimed_at, session)
          )
        end as all_failures
      from ended
    ),
    kept as (
      insert into holdfast.job_history
        (id, queue, priority, kind, payload, state, error, enqueued_at, claimed_at, session, fence, failed, crashes,
         max_crashes, progress, log, failures, links)
      select id, queue, priority, kind, payload, state, error, enqueued_at, claimed_at, session, fence, failed + failed_now, crashes,
        max_crashes, progress, log, all_failures, links
      from told
      where state <> 'retried'
      returning id
    ),
    retried as (
      insert into holdfast.waiting
        (id, queue, priority, kind, payload, enqueued_at, run_at, failed, crashes, max_crashes, log, failures, links)
      select id, queue, priority, kind, payload, enqueued_at,
        clock_timestamp() + make_interval(secs => delay_ms / 1000.0), failed + failed_now, crashes, max_crashes, log,
        all_failures, links
      from told
      where state = 'retried'
      returning id
    ),
    returned as (
      update holdfast.job
      set session = null,
          fence = null,
          claimed_at = null,
          started = false,
          seq = nextval('holdfast.job_number')
      from e
      where job.id = e.id
        and e.state = 'returned'
      returning job.id, job.queue
    ),
    woken as (
      select holdfast.job_wake(queue, count(*)) from returned group by queue
    )
    select
      (
        select array_agg(id)
        from (
          select id from kept
          union all
          select id from retried
          union all
          select id from returned
          union all
          -- This condition is never true. It forces PostgreSQL to execute the CTE.
          select null from woken where false
        ) as all_of_them
      ),
      (
        select jsonb_agg(
          jsonb_build_object('id', id, 'queue', queue, 'kind', kind, 'session', session, 'state', state, 'links', links)
        )
        from told
        where links is not null
      )
    into recorded, linked;
    if linked is not null then
      follow_ups := holdfast.job_release_links(linked);
    end if;
    if cardinality(emptied) > 0 then
      perform holdfast.job_delete_claims(emptied);
    end if;
    recorded := coalesce(recorded, '{}');
  end
  $$;
comment on function holdfast.job_end(json, bigint[]) is
  'Ends attempts that are not done: moves jobs to the history (cancelled, discarded, buried), to waiting (retried), or to the tail of the '
  'queue (returned). Each outcome is checked as in job_done. A cancelled job is not retried or returned, but ends as cancelled. recorded '
  'lists the outcomes that were accepted. follow_ups are for job_run_follow_ups.';

create or replace function holdfast.job_take_over(session integer) returns integer
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    one record;
    taken integer := 0;
    more integer;
    linked jsonb;
  begin
    -- A claim of this epoch is still running. The next maintenance run takes the epoch over.
    if not pg_try_advisory_xact_lock(holdfast.lock_class('claims of a session'), session) then
      return 0;
    end if;
    for one in
      select * from holdfast.claim where claim.session = job_take_over.session order by claim.fence limit 100
    loop
      with claimed as materialized (
        select
          job.id,
          job.failed,
          job.crashes,
          job.failures,
          case
            when job.crashes > 0 or job.max_crashes = 1 then job.started::integer
            else 1
          end as charge
        from holdfast.job
        where job.id = any(one.jobs)
          and job.fence = one.fence
        order by job.id
        for update
      ),
      mine as materialized (
        select
          id,
          charge,
          case
            when charge = 0 then failures
            when jsonb_array_length(failures) >= 20 then failures - 0
            else coalesce(failures, '[]')
          end || case
            when charge = 0 then '[]'
            else jsonb_build_array(
              '{"name": "WorkerCrashedError", "message": "Its worker died while it ran", "code": "WORKER_CRASHED"}'
              || holdfast.job_failure_details(failed + crashes + 1, one.claimed_at, one.session)
            )
          end as all_failures
        from claimed
      ),
      back as (
        update holdfast.job
        set session = null,
            fence = null,
            claimed_at = null,
            started = false,
            crashes = job.crashes + charge,
            failures = mine.all_failures,
            seq = nextval('holdfast.job_number')
        from mine
        where job.id = mine.id
          and job.cancelled is null
          and job.crashes + charge < job.max_crashes
        returning job.id, job.queue
      ),
      ended as (
        delete from holdfast.job
        using mine
        where job.id = mine.id
          and (job.cancelled is not null or job.crashes + charge >= job.max_crashes)
        returning job.*, charge, all_failures
      ),
      kept as (
        insert into holdfast.job_history
          (id, queue, priority, kind, payload, state, error, enqueued_at, claimed_at, session, fence, failed, crashes,
           max_crashes, progress, log, failures, links)
        select id, queue, priority, kind, payload,
          case when cancelled is null then 'buried' else 'cancelled' end,
          case
            when cancelled is null then json_build_object(
              'name', 'WorkerCrashedError',
              'message', format('Its worker died while it ran, %s times', crashes + charge),
              'code', 'WORKER_CRASHED'
            )
            else json_build_object('name', 'JobCancelledError', 'message', cancelled, 'code', 'JOB_CANCELLED')
          end,
          enqueued_at, one.claimed_at, one.session, one.fence, failed, crashes + charge, max_crashes, progress, log, all_failures, links
        from ended
        returning id, queue, kind, state, links
      ),
      woken as (
        select holdfast.job_wake(queue, count(*)) from back group by queue
      )
      select
        (select count(*) from back) + (select count(*) from kept) + 0 * (select count(*) from woken),
        (
          select jsonb_agg(
            jsonb_build_object('id', id, 'queue', queue, 'kind', kind, 'session', job_take_over.session, 'state', state, 'links', links)
          )
          from kept
          where links is not null
        )
      into more, linked;
      if linked is not null then
        perform holdfast.job_release_links(linked);
      end if;
      taken := taken + more;
      delete from holdfast.claim where claim.fence = one.fence;
    end loop;
    select taken + t.moved into taken from holdfast.job_run_follow_ups('{}', '{}', job_take_over.session) as t;
    perform from holdfast.claim where claim.session = job_take_over.session limit 1;
    if found then
      return taken;
    end if;
    perform from holdfast.follow_up where follow_up.session = job_take_over.session limit 1;
    if not found then
      delete from holdfast.worker where worker.session = job_take_over.session;
    end if;
    return taken;
  end
  $$;
comment on function holdfast.job_take_over(integer) is
  'Returns the jobs of a dead epoch to their queues, up to 100 claims per call. Charges a crash to each job that may have run, '
  'and buries jobs with too many crashes.';

create or replace function holdfast.job_maintain(max_count integer, out due_ms integer, out moved integer)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    dead integer;
    linked bigint[];
  begin
    moved := 0;
    -- Another instance is running maintenance.
    if not pg_try_advisory_xact_lock(holdfast.lock_class('job maintenance'), 0) then
      return;
    end if;
    for dead in
      select distinct worker.session from holdfast.worker where not holdfast.is_present(worker.session)
    loop
      moved := moved + holdfast.job_take_over(dead);
    end loop;
    with due as materialized (
      -- A trace is not a link that can delay a job.
      select id, coalesce(links - 'trace' <> '{}', false) as is_linked
      from holdfast.waiting
      where stage = 'time'
        and run_at <= clock_timestamp()
      order by run_at
      limit max_count
      for update skip locked
    ),
    gone as (
      delete from holdfast.waiting
      where id = any(array(select id from due where not is_linked))
      returning *
    ),
    promoted as (
      insert into holdfast.job
        (id, seq, queue, priority, kind, payload, enqueued_at, failed, crashes, max_crashes, log, failures, links)
      select id, nextval('holdfast.job_number'), queue, priority, kind, payload, enqueued_at, failed, crashes, max_crashes,
        log, failures, links
      from (select * from gone order by run_at, id) as in_order
      returning queue
    ),
    woken as (
      select count(*) as jobs, holdfast.job_wake(queue, count(*)) from promoted group by queue
    )
    select
      moved + coalesce((select sum(jobs) from woken), 0),
      (select array_agg(id) from due where is_linked)
    into moved, linked;
    if linked is not null
      or exists (select from holdfast.lane where due_at <= clock_timestamp())
      or exists (select from holdfast.follow_up where session = 0)
    then
      select job_maintain.moved + t.moved into moved from holdfast.job_run_follow_ups('{}', coalesce(linked, '{}'), 0) as t;
    end if;
    moved := moved + holdfast.job_sweep_keys(max_count);
    -- At most one day, because an integer of milliseconds overflows after 24 days.
    select greatest(0, ceil(extract(epoch from min(at) - clock_timestamp()) * 1000))::integer
    into due_ms
    from (
      (
        select run_at
        from holdfast.waiting
        where stage = 'time'
          and run_at < clock_timestamp() + interval '1 day'
        order by run_at
        limit 1
      )
      union all
      (select due_at from holdfast.lane where due_at < clock_timestamp() + interval '1 day' order by due_at limit 1)
    ) as next (at)
    having count(*) > 0;
  end
  $$;
comment on function holdfast.job_maintain(integer) is
  'Runs maintenance, one session at a time: takes over dead epochs and moves up to max_count due jobs. '
  'due_ms: time until the next job is due. moved: number of moved jobs, or null if another session runs maintenance.';

create or replace function holdfast.job_roll_partitions(keep integer) returns void
  language plpgsql
  -- Runs as the owner of the schema, because workers have no right to create tables.
  security definer
  set search_path = pg_catalog, pg_temp
  set timezone = 'UTC'
  as $$
  declare
    -- A long query on the history must not block the recording of outcomes.
    patience text := set_config('lock_timeout', '200ms', true);
    today constant date := (clock_timestamp() at time zone 'UTC')::date;
    schema constant text := holdfast.notification_channel();
    day date;
    past text;
  begin
    if not pg_try_advisory_xact_lock(holdfast.lock_class('job history'), 0) then
      return;
    end if;
    for day in select today + n from generate_series(0, 3) as n loop
      continue when to_regclass(format('%I.%I', schema, 'job_history_' || to_char(day, 'YYYYMMDD'))) is not null;
      begin
        execute format(
          'create table %1$I.%2$I (like %1$I.job_history including defaults including constraints)',
          schema, 'job_history_' || to_char(day, 'YYYYMMDD')
        );
        execute format(
          'comment on table %I.%I is %L', schema, 'job_history_' || to_char(day, 'YYYYMMDD'),
          format('Jobs that ended on %s (UTC).', day)
        );
        execute format(
          'alter table %1$I.job_history attach partition %1$I.%2$I for values from (%3$L) to (%4$L)',
          schema, 'job_history_' || to_char(day, 'YYYYMMDD'), day::timestamptz, (day + 1)::timestamptz
        );
        execute format(
          'alter table %1$I.%2$I replica identity using index %2$s_id_ended_at_idx',
          schema, 'job_history_' || to_char(day, 'YYYYMMDD')
        );
      exception
        -- check_violation: jobs of that day are already in the default partition. lock_not_available: a query on the history is running.
        when check_violation or lock_not_available then null;
      end;
    end loop;
    for past in
      select relname
      from pg_class
      join pg_inherits on inhrelid = pg_class.oid
      where inhparent = 'holdfast.job_history'::regclass
        and relname ~ '^job_history_[0-9]{8}$'
        and to_date(right(relname, 8), 'YYYYMMDD') < today - keep
    loop
      begin
        execute format('drop table %I.%I', schema, past);
      exception
        when lock_not_available then null;
      end;
    end loop;
    delete from holdfast.job_history_default where ended_at < (today - keep)::timestamptz;
  end
  $$;
comment on function holdfast.job_roll_partitions(integer) is
  'Creates the history partitions for today and the next three days, and drops partitions that are older than keep days.';

-- The function runs as the owner and drops data of the given age, so read-only roles must not call it.
revoke execute on function holdfast.job_roll_partitions(integer) from public;

-- Lanes and dependencies. Only one transaction at a time changes them, and it never waits for another transaction (see job_run_follow_ups).
-- So only the rows that it moves are locked.

-- PostgreSQL inlines this function only without a search_path setting. Therefore each operator is qualified with its schema.
create or replace function holdfast.job_blocks_dependent(state text, if_failed text) returns boolean
  language sql immutable
  as $$
    select state operator(pg_catalog.=) any(array['ready', 'running', 'waiting'])
      or state operator(pg_catalog.=) any(array['cancelled', 'buried']) and if_failed operator(pg_catalog.=) 'wait'
  $$;
comment on function holdfast.job_blocks_dependent(text, text) is
  'Whether a job in this state blocks a dependent with this ifFailed. An ended job blocks only if it failed and the dependent '
  'waits for its retry. Otherwise the dependent is being released or cancelled.';

create or replace function holdfast.job_unmet_dependencies(jobs bigint[], max_count integer) returns table (job bigint, needs bigint, state text)
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select waiting.id, needed.needs, needed.state
    from unnest(jobs) as asked (id)
    join holdfast.waiting on waiting.id = asked.id and waiting.stage = 'jobs'
    cross join lateral (
      select d.needs, found.state
      -- Sorts before it reads the states, because there may be thousands of jobs.
      from (select dependency.needs from holdfast.dependency where dependency.job = waiting.id order by needs offset 0) as d
      cross join lateral (
        select coalesce(
          (
            select case when j.session is null then 'ready' else 'running' end
            from holdfast.job j
            where j.id = d.needs
          ),
          (select 'waiting' from holdfast.waiting w where w.id = d.needs),
          (select h.state from holdfast.job_history h where h.id = d.needs order by ended_at desc limit 1)
        ) as state
      ) as found
      where holdfast.job_blocks_dependent(found.state, waiting.links->>'ifFailed')
      limit max_count
    ) as needed
  $$;
comment on function holdfast.job_unmet_dependencies(bigint[], integer) is
  'Returns the jobs that block these jobs, with their states, up to max_count per job.';

create or replace function holdfast.job_resolve_links(links jsonb, queue bigint, delay_ms bigint, run_at timestamptz) returns jsonb
  language sql
  as $$
    select case
        when links ? 'lane'
        then jsonb_set(links, '{lane,key}', to_jsonb(holdfast.lock_key(queue::text, 'lane/' || (links->'lane'->>'name'))))
        else links
      end
      || case
        when links ? 'after' and coalesce(delay_ms, 0) > 0
        then jsonb_build_object('runAt', clock_timestamp() + make_interval(secs => delay_ms / 1000.0))
        when links ? 'after' and run_at is not null
        then jsonb_build_object('runAt', run_at)
        else '{}'
      end
  $$;
comment on function holdfast.job_resolve_links(jsonb, bigint, bigint, timestamptz) is
  'Completes links for storage: adds the key of the lane and, for a job with dependencies, its earliest start.';

create or replace function holdfast.job_record_follow_ups(linked jsonb) returns bigint[]
  language sql
  set search_path = pg_catalog, pg_temp
  as $$
    with loosened as (
      insert into holdfast.follow_up (session, linked)
      select coalesce((one->>'session')::integer, 0), one - 'session'
      from jsonb_array_elements(linked) as one
      where (one->'links' ? 'lane' and coalesce((one->>'placed')::boolean, true))
        or (one->'links' ? 'awaited' and one->>'state' <> 'retried')
      returning number
    )
    select array_agg(number) from loosened
  $$;
comment on function holdfast.job_record_follow_ups(jsonb) is
  'Records the follow-ups of jobs whose completion affects other jobs. Takes the same argument as job_release_links. Returns the numbers '
  'of the follow-ups.';

create or replace function holdfast.job_request_maintenance() returns void
  language sql
  set search_path = pg_catalog, pg_temp
  as $$
    select pg_notify(holdfast.notification_channel(), 'jobs-maintenance-due ' || session)
    from (select session from holdfast.worker order by not sleeping, random() limit 1) as chosen
  $$;
comment on function holdfast.job_request_maintenance() is 'Requests maintenance from one random worker.';

create or replace function holdfast.lane_is_empty(cursors bigint[]) returns boolean
  language sql immutable
  as $$ select array_remove(cursors, null) = '{}' $$;
comment on function holdfast.lane_is_empty(bigint[]) is 'Whether no job is waiting in a lane.';

create or replace function holdfast.lane_room(max integer, active integer, every bigint, burst integer, free_at timestamptz, at timestamptz)
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
  'Returns the number of jobs that a lane may admit now, at most 500.';

create or replace function holdfast.lane_fill(keys bigint[], gone integer[]) returns integer
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    now constant timestamptz := clock_timestamp();
    chosen bigint[];
    chosen_keys bigint[];
    moved integer := 0;
  begin
    -- Skips jobs that another transaction is cancelling or replacing. due_at ensures that these jobs are checked again soon.
    select array_agg(next.id), array_agg(next.lane)
    into chosen, chosen_keys
    from unnest(keys, gone) as t (key, gone)
    cross join lateral (
      select * from holdfast.lane where lane.key = t.key order by version desc limit 1
    ) as l
    cross join lateral (select holdfast.lane_room(max, active - t.gone, every, burst, free_at, now) as room) as r
    cross join lateral (
      select parked.*
      from unnest(l.cursors) with ordinality as level (cursors, at)
      cross join lateral (
        select waiting.id, waiting.lane
        from holdfast.waiting
        where waiting.lane = l.key
          and waiting.rank = level.at - 6
          and waiting.seq > level.cursors
          and waiting.stage = 'lane'
        order by waiting.seq
        limit r.room
        for update skip locked
      ) as parked
      where level.cursors is not null
        and r.room > 0
      order by level.at
      limit r.room
    ) as next;
    if chosen is not null then
      moved := holdfast.job_make_ready(chosen);
    end if;
    update holdfast.lane
    set version = l.version + 1,
        active = l.active - l.gone + l.more,
        cursors = l.first,
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
              and waiting.seq > level.cursors
              and waiting.stage = 'lane'
            order by waiting.seq
            limit 1
          )
          from unnest(l.cursors) with ordinality as level (cursors, at)
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
      and holdfast.lane_is_empty(lane.cursors)
      and (lane.every is null or lane.free_at <= now);
    return moved;
  end
  $$;
comment on function holdfast.lane_fill(bigint[], integer[]) is
  'Subtracts jobs that have left from each lane, admits the next waiting jobs, and deletes unused lanes. '
  'Returns the number of admitted jobs.';

create or replace function holdfast.lane_enter(ids bigint[]) returns integer
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    now constant timestamptz := clock_timestamp();
    ready bigint[];
    crowded bigint[];
    moved integer := 0;
  begin
    -- The latest job determines its lane's limits, unless a later job has already entered the lane.
    with told as materialized (
      select distinct on (p.key) p.*, w.queue, w.id
      from holdfast.waiting w
      cross join lateral jsonb_to_record(w.links->'lane') as p (key bigint, name text, max integer, every bigint, burst integer)
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
      insert into holdfast.lane (key, queue, name, max, every, burst, updated_by_job)
      select key, queue, name, max, every, burst, id
      from told
      where not exists (select from known where known.key = told.key)
    )
    update holdfast.lane
    set version = lane.version + 1,
        max = told.max,
        every = told.every,
        burst = told.burst,
        updated_by_job = told.id
    from known
    join told on told.key = known.key
    where lane.key = known.key
      and lane.version = known.version
      and lane.updated_by_job < told.id
      and (lane.max, lane.every, lane.burst) is distinct from (told.max, told.every, told.burst);
    -- If no job is waiting in the lane, the first jobs that enter are admitted while slots are free. All other jobs wait in order.
    with entrant as materialized (
      select
        w.id, l.key, l.version, (-w.priority)::smallint as rank,
        case when holdfast.lane_is_empty(l.cursors)
          then holdfast.lane_room(l.max, l.active, l.every, l.burst, l.free_at, now)
          else 0
        end as room,
        row_number() over (partition by l.key order by w.priority desc, w.run_at, w.id) as place
      from holdfast.waiting w
      cross join lateral (
        select * from holdfast.lane where lane.key = (w.links->'lane'->>'key')::bigint order by version desc limit 1
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
      select key, array_agg(rank) as ranks, array_agg(cursors) as cursors
      from (select key, rank, min(seq) - 1 as cursors from parked group by key, rank) as first
      group by key
    ),
    counted as materialized (
      select entered.*, level.ranks, level.cursors
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
          updated_by_job = greatest(updated_by_job, c.latest),
          free_at = case
            when every is null or c.more = 0 then free_at
            else greatest(free_at, now) + make_interval(secs => c.more * every / 1e6)
          end,
          -- The lane is in use again. lane_fill computes the next check.
          due_at = null,
          cursors = array(
            select coalesce(p.cursors, c.cursors[array_position(c.ranks, (p.at - 6)::smallint)])
            from unnest(lane.cursors) with ordinality as p (cursors, at)
            order by p.at
          )
      from counted c
      where lane.key = c.key
        and lane.version = c.version
      returning lane.key, lane.cursors
    )
    select
      (select array_agg(id) from entrant where place <= room),
      (select array_agg(key) from changed where not holdfast.lane_is_empty(cursors))
    into ready, crowded;
    if ready is not null then
      moved := holdfast.job_make_ready(ready);
    end if;
    -- A lane with waiting jobs can have free slots, for example if its max was raised.
    if crowded is not null then
      moved := moved + holdfast.lane_fill(crowded, array_fill(0, array[cardinality(crowded)]));
    end if;
    return moved;
  end
  $$;
comment on function holdfast.lane_enter(bigint[]) is
  'Adds due jobs, which the caller has locked, to their lanes. Each job becomes ready or waits in its lane. '
  'Returns the number of jobs that became ready.';

create or replace function holdfast.job_cancel_dependents(ids bigint[], reasons text[]) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    linked jsonb;
  begin
    with gone as (
      delete from holdfast.waiting
      using unnest(ids, reasons) as e (id, reason)
      where waiting.id = e.id
      returning waiting.*, e.reason
    ),
    kept as (
      insert into holdfast.job_history
        (id, queue, priority, kind, payload, state, error, enqueued_at, failed, crashes, max_crashes, log, failures, links)
      select id, queue, priority, kind, payload, 'cancelled',
        json_build_object('name', 'JobCancelledError', 'message', reason, 'code', 'JOB_CANCELLED'),
        enqueued_at, failed, crashes, max_crashes, log, failures, links
      from gone
      returning id, queue, kind, links
    )
    select jsonb_agg(
      jsonb_build_object('id', id, 'queue', queue, 'kind', kind, 'state', 'cancelled', 'links', links, 'placed', false)
    )
    into linked
    from kept;
    delete from holdfast.dependency where job = any(ids);
    perform holdfast.job_release_links(linked);
  end
  $$;
comment on function holdfast.job_cancel_dependents(bigint[], text[]) is
  'Cancels waiting jobs, which the caller has locked, because a job that they depend on failed.';

create or replace function holdfast.job_wait_for_dependencies(ids bigint[]) returns bigint[]
  language plpgsql
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
    -- In a single snapshot, each job is in at most one table. A job that is in no table ended so long ago that the history no longer
    -- contains it.
    with pair as materialized (
      select distinct w.id as job, w.links->>'ifFailed' as if_failed, needs.id::bigint as needs
      from holdfast.waiting w
      cross join lateral jsonb_array_elements_text(w.links->'after') as needs (id)
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
        select coalesce(bool_or(true), false) as is_live, coalesce(bool_or(links ? 'awaited'), false) as is_awaited
        from (
          select links from holdfast.job where id = needs
          union all
          select links from holdfast.waiting where id = needs
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
          cross join lateral jsonb_array_elements_text(w.links->'after') with ordinality as needs (id, at)
          join holdfast.job_history h on h.id = needs.id::bigint and h.state in ('cancelled', 'buried')
          where w.id = job
          order by needs.at
          limit 1
        )
        from unnest(failed) with ordinality as f (job, at)
        order by at
      );
      perform holdfast.job_cancel_dependents(failed, reasons);
    end if;
    -- From now on, these jobs write follow-ups when they end. Locked rows are skipped. A job that has ended in the meantime, even through
    -- the call above, is not marked either. The dependents of unmarked jobs are checked again.
    with in_job as (
      update holdfast.job
      set links = coalesce(links, '{}') || '{"awaited": true}',
          -- A new seq, because a cursor may have passed the row while it was locked. A claimed job keeps its seq.
          seq = case when session is null then nextval('holdfast.job_number') else seq end
      where id = any(array(select id from holdfast.job where id = any(unmarked) order by id for update skip locked))
      returning id
    ),
    in_waiting as (
      update holdfast.waiting
      set links = coalesce(links, '{}') || '{"awaited": true}'
      where id = any(array(select id from holdfast.waiting where id = any(unmarked) order by id for update skip locked))
      returning id
    ),
    in_history as (
      update holdfast.job_history
      set links = coalesce(links, '{}') || '{"awaited": true}'
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
    -- These jobs are checked again soon.
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
        unmet = counted.unmet
    from (select job, count(*)::integer as unmet from certain group by job) as counted
    where waiting.id = counted.job;
    select coalesce(array_agg(id), '{}')
    into met
    from unnest(ids) as asked (id)
    where not id = any(unsure)
      and not id = any(failed)
      and id not in (select (one->>0)::bigint from jsonb_array_elements(pairs) as one);
    update holdfast.waiting
    set links = links || '{"met": true}',
        run_at = coalesce((links->>'runAt')::timestamptz, run_at)
    where id = any(met);
    return met;
  end
  $$;
comment on function holdfast.job_wait_for_dependencies(bigint[]) is
  'Makes jobs, which the caller has locked, wait for dependencies that have not ended, or cancels them. Returns the jobs that do not have '
  'to wait.';

create or replace function holdfast.job_release_dependents(ended jsonb, max_count integer, out released bigint[], out is_all boolean)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    reached integer;
    failed bigint[];
    reasons text[];
  begin
    -- Skips dependents that are waiting for a retry of the failed job.
    with over as materialized (
      select id, state, state in ('cancelled', 'buried') as is_failed
      from jsonb_to_recordset(ended) as e (id bigint, state text)
    ),
    reached_now as materialized (
      select w.id, over.id as needs, over.state, over.is_failed and not w.links ? 'ifFailed' as is_cancelled
      from over
      join holdfast.dependency d on d.needs = over.id
      join holdfast.waiting w on w.id = d.job and w.stage = 'jobs'
      where not over.is_failed
        or w.links->>'ifFailed' is distinct from 'wait'
      limit max_count
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
      set unmet = unmet - counted.ended,
          stage = case when unmet > counted.ended then 'jobs' else 'time' end,
          run_at = case when unmet > counted.ended then run_at else coalesce((links->>'runAt')::timestamptz, run_at) end,
          links = case when unmet > counted.ended then links else links || '{"met": true}' end
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
      perform holdfast.job_cancel_dependents(failed, reasons);
    end if;
    is_all := reached < max_count and not exists (
      select
      from jsonb_to_recordset(ended) as e (id bigint, state text)
      join holdfast.dependency d on d.needs = e.id
      join holdfast.waiting w on w.id = d.job and w.stage = 'jobs'
      where e.state not in ('cancelled', 'buried')
        or w.links->>'ifFailed' is distinct from 'wait'
    );
  end
  $$;
comment on function holdfast.job_release_dependents(jsonb, integer) is
  'Handles up to max_count dependents of ended jobs: cancels them, or releases those without other dependencies. '
  'Returns the released jobs.';

create or replace function holdfast.job_run_follow_ups(numbers bigint[], ids bigint[], session integer, out moved integer, out due_ms integer)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    keys bigint[];
    gone integer[];
    ended jsonb;
    released bigint[];
    is_all boolean;
  begin
    -- The commit is not flushed, because a crash that loses the result also restores the follow-ups, and maintenance then runs them.
    perform set_config('synchronous_commit', 'off', true);
    perform pg_advisory_xact_lock(holdfast.lock_class('job follow-ups'), 0);
    moved := 0;
    if session is not null then
      numbers := numbers || array(select number from holdfast.follow_up where follow_up.session = job_run_follow_ups.session limit 1000);
    end if;
    with linked as (
      delete from holdfast.follow_up where number = any(numbers) returning follow_up.linked
    ),
    counted as (
      select key, sum(jobs)::integer as jobs
      from (
        select (linked->'links'->'lane'->>'key')::bigint as key, 1 as jobs
        from linked
        where linked->'links' ? 'lane'
          and coalesce((linked->>'placed')::boolean, true)
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
        select jsonb_agg(jsonb_build_object('id', linked->'id', 'state', linked->'state'))
        from linked
        where linked->'links' ? 'awaited'
          and linked->>'state' <> 'retried'
      )
    into keys, gone, ended;
    if ended is not null then
      select r.released, r.is_all into released, is_all from holdfast.job_release_dependents(ended, 2000) as r;
      ids := ids || released;
      if not is_all then
        insert into holdfast.follow_up (session, linked)
        select 0, one || '{"links": {"awaited": true}, "placed": false}' from jsonb_array_elements(ended) as one;
      end if;
    end if;
    if keys is not null then
      moved := holdfast.lane_fill(keys, gone);
    end if;
    if cardinality(ids) > 0 then
      moved := moved + holdfast.job_admit(ids);
    end if;
    if exists (select from holdfast.follow_up where follow_up.session = 0) then
      due_ms := 0;
      return;
    end if;
    select greatest(1, ceil(extract(epoch from min(at) - clock_timestamp()) * 1000))::integer
    into due_ms
    from (
      -- At most one day, because an integer of milliseconds overflows after 24 days.
      (select due_at from holdfast.lane where due_at < clock_timestamp() + interval '1 day' order by due_at limit 1)
      union all
      (select run_at from holdfast.waiting where stage = 'time' and run_at < clock_timestamp() + interval '1 s' order by run_at limit 1)
    ) as next (at)
    having count(*) > 0;
  end
  $$;
comment on function holdfast.job_run_follow_ups(bigint[], bigint[], integer) is
  'Runs the follow-ups with these numbers and the follow-ups of this session, then admits waiting jobs. Only one such transaction runs '
  'at a time, and it is short. moved: number of jobs that became ready. due_ms: time until the next work is due, or 0 if follow-ups '
  'without an owner remain (session 0).';

create or replace function holdfast.job_enqueue_workflow(jobs json) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    insert into holdfast.waiting (id, queue, priority, kind, payload, max_crashes, run_at, links)
    select
      -- A payload of JSON null is read as an SQL null.
      id, queue, priority, kind, coalesce(payload, 'null'), max_crashes,
      case
        when links ? 'after' then clock_timestamp()
        else coalesce(run_at, clock_timestamp() + make_interval(secs => coalesce(delay_ms, 0) / 1000.0))
      end,
      holdfast.job_resolve_links(links, queue, delay_ms, run_at)
    from json_to_recordset(jobs)
      as j (id bigint, queue bigint, kind text, priority smallint, max_crashes smallint, delay_ms bigint,
        run_at timestamptz, links jsonb, payload json);
    perform holdfast.job_request_maintenance();
  end
  $$;
comment on function holdfast.job_enqueue_workflow(json) is
  'Enqueues the jobs of one workflow, all or none, with ids that the caller has already reserved.';

create or replace function holdfast.lane_faults() returns table (key bigint, name text, active integer, counted bigint)
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    with placed as (
      select (links->'lane'->>'key')::bigint as key from holdfast.job where links ? 'lane'
      union all
      select (linked->'links'->'lane'->>'key')::bigint
      from holdfast.follow_up
      where linked->'links' ? 'lane' and coalesce((linked->>'placed')::boolean, true)
    ),
    counted as (
      select placed.key, count(*) as jobs from placed group by placed.key
    )
    select coalesce(lane.key, counted.key), lane.name, lane.active, coalesce(counted.jobs, 0)
    from holdfast.lane
    full join counted on counted.key = lane.key
    where lane.active is distinct from coalesce(counted.jobs, 0)
  $$;
comment on function holdfast.lane_faults() is 'Returns the lanes whose active count is wrong. The result must always be empty.';
