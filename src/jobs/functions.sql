-- Functions of the job queue. src/jobs/README.md describes the protocol.

-- Functions that read job states. No other code in this file determines a job's state.

-- PostgreSQL inlines this function only without a search_path setting.
create or replace function holdfast.job_bucket(id bigint) returns bigint
  language sql immutable strict parallel safe
  as $$ select id operator(pg_catalog.>>) 7 $$;
comment on function holdfast.job_bucket(bigint) is 'Returns the bucket in which job_end lists a job''s end. A bucket covers 128 jobs.';

create or replace function holdfast.job_levels()
  returns table (queue bigint, priority smallint, era integer, base pg_snapshot, upto pg_snapshot, at_xid xid8, at_entry bigint)
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    with recursive level as (
      (select job.queue, job.priority from holdfast.job order by job.queue, job.priority limit 1)
      union all
      select next.queue, next.priority
      from level
      cross join lateral (
        select job.queue, job.priority
        from holdfast.job
        where (job.queue, job.priority) > (level.queue, level.priority)
        order by job.queue, job.priority
        limit 1
      ) as next
    )
    select
      level.queue, level.priority, coalesce(f.era, 0),
      case when f.is_read then f.upto else coalesce(f.base, '1:1:') end,
      coalesce(f.upto, '1:1:'),
      case when f.is_read then '0' else coalesce(f.at_xid, '0') end,
      case when f.is_read then 0 else coalesce(f.at_entry, 0) end
    from level
    left join lateral (
      select *
      from holdfast.frontier
      where frontier.queue = level.queue
        and frontier.priority = level.priority
      order by number desc
      limit 1
    ) as f on true
  $$;
comment on function holdfast.job_levels() is
  'Returns the levels (queue and priority) that have entries, and the position up to which each level has been claimed. See frontier.';

create or replace view holdfast.job_ready as
  select j.*
  from holdfast.job_levels() as f
  cross join lateral (
    select job.*
    from holdfast.job
    where job.queue = f.queue
      and job.priority = f.priority
      and job.era > f.era
    union all
    select job.*
    from holdfast.job
    where job.queue = f.queue
      and job.priority = f.priority
      and job.era = f.era
      and job.xid >= pg_snapshot_xmax(f.base)
      and not (pg_visible_in_snapshot(job.xid, f.upto) and (job.xid, job.entry) <= (f.at_xid, f.at_entry))
    union all
    select job.*
    from holdfast.job
    where job.queue = f.queue
      and job.priority = f.priority
      and job.era = f.era
      and job.xid = any(array(select pg_snapshot_xip(f.base)))
      and not (pg_visible_in_snapshot(job.xid, f.upto) and (job.xid, job.entry) <= (f.at_xid, f.at_entry))
  ) as j
  where not exists (select from holdfast.job_removed where job_removed.entry = j.entry)
  union all
  select job.*
  from holdfast.job_skipped
  join holdfast.job on job.id = job_skipped.id and job.entry = job_skipped.entry
  where not exists (select from holdfast.job_removed where job_removed.entry = job.entry);
comment on view holdfast.job_ready is 'Entries that may be claimed now.';

create or replace view holdfast.job_running as
  select
    c.session, c.fence, c.claimed_at, j.queue, c.id, j.entry, j.priority, j.kind, j.payload,
    coalesce(j.enqueued_at, j.entered_at) as enqueued_at, coalesce(j.failed, 0) as failed, coalesce(j.crashes, 0::smallint) as crashes,
    coalesce(j.max_crashes, 3::smallint) as max_crashes, coalesce(n.started, false) as started, n.cancelled, n.progress,
    (j.log || n.log)[greatest(1, cardinality(j.log || n.log) - 99):] as log, j.failures, j.links, j.meta
  from (select claim.session, claim.fence, claim.claimed_at, unnest(claim.ids) as id from holdfast.claim) as c
  cross join lateral (
    select * from holdfast.job where job.id = c.id order by entry desc limit 1
  ) as j
  left join holdfast.job_note n on n.id = c.id and n.fence = c.fence
  where not exists (
    select
    from holdfast.job_end e
    where e.bucket = holdfast.job_bucket(c.id)
      and e.fence = c.fence
      and c.id = any(e.ids)
  );
comment on view holdfast.job_running is 'Jobs that a worker has claimed and not ended.';

create or replace view holdfast.job_live as
  select
    id, entry, queue, priority, kind, payload, coalesce(enqueued_at, entered_at) as enqueued_at, null::integer as session,
    null::bigint as fence, null::timestamptz as claimed_at, coalesce(failed, 0) as failed, coalesce(crashes, 0::smallint) as crashes,
    coalesce(max_crashes, 3::smallint) as max_crashes, false as started, null::text as cancelled, null::json as progress, log, failures, links,
    meta
  from holdfast.job_ready
  union all
  select
    id, entry, queue, priority, kind, payload, enqueued_at, session, fence, claimed_at, failed, crashes, max_crashes, started, cancelled,
    progress, log, failures, links, meta
  from holdfast.job_running;
comment on view holdfast.job_live is 'Jobs that may run now, and running jobs. A ready job''s session is null.';

create or replace view holdfast.job_history as
  select
    id, queue, priority, kind, payload, state, null::json as result, error, enqueued_at, claimed_at, ended_at, session, fence, failed,
    crashes, max_crashes, progress, log, failures, links, meta
  from holdfast.job_stopped
  union all
  select
    ended.id, j.queue, j.priority, j.kind, j.payload, 'done', nullif(substr(ended.result::text, 2, length(ended.result::text) - 2), '')::json,
    null, coalesce(j.enqueued_at, j.entered_at), e.claimed_at,
    e.ended_at, e.session, e.fence, coalesce(j.failed, 0), coalesce(j.crashes, 0::smallint), coalesce(j.max_crashes, 3::smallint),
    n.progress, (j.log || n.log)[greatest(1, cardinality(j.log || n.log) - 99):], j.failures, j.links, j.meta
  from holdfast.job_end e
  cross join lateral rows from (unnest(e.ids), json_array_elements(e.results)) as ended (id, result)
  join holdfast.job j on j.id = ended.id
  left join holdfast.job_note n on n.id = ended.id and n.fence = e.fence
  where e.is_done
    and not exists (select from holdfast.job newer where newer.id = j.id and newer.entry > j.entry)
    and not exists (select from holdfast.job_archive a where a.id = j.id)
  union all
  select
    id, queue, priority, kind, payload, state, result, error, enqueued_at, claimed_at, ended_at, session, fence, failed, crashes,
    max_crashes, progress, log, failures, links, meta
  from holdfast.job_archive;
comment on view holdfast.job_history is 'Jobs that have ended. See job_stopped for the columns.';
comment on column holdfast.job_history.result is 'Return value of the handler. Null if it returned nothing.';

create or replace function holdfast.job_find(ids bigint[])
  returns table (
    id bigint, state text, queue bigint, priority smallint, kind text, payload json, result json, error json, enqueued_at timestamptz,
    run_at timestamptz, claimed_at timestamptz, ended_at timestamptz, session integer, fence bigint, failed integer, crashes smallint,
    max_crashes smallint, cancelled text, progress json, log json[], failures jsonb, links jsonb, meta json, entry bigint
  )
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    with asked as materialized (
      select distinct unnest(ids) as id
    ),
    waits as materialized (
      select w.*
      from asked
      cross join lateral (
        select * from holdfast.waiting where waiting.id = asked.id offset 0
      ) as w
    ),
    stopped as materialized (
      select s.*
      from asked
      cross join lateral (
        select * from holdfast.job_stopped where job_stopped.id = asked.id order by ended_at desc limit 1
      ) as s
      where not exists (select from waits where waits.id = asked.id)
    ),
    archived as materialized (
      select a.*
      from asked
      cross join lateral (
        select * from holdfast.job_archive where job_archive.id = asked.id offset 0
      ) as a
    ),
    entered as materialized (
      select j.*
      from asked
      cross join lateral (
        select * from holdfast.job where job.id = asked.id order by entry desc limit 1
      ) as j
      where not exists (select from waits where waits.id = asked.id)
        and not exists (select from stopped where stopped.id = asked.id)
        and not exists (select from archived where archived.id = asked.id)
    ),
    -- Reads job_end's rows once per bucket, not once per id. There may be thousands of ids, and up to 128 of them share a bucket.
    ended as materialized (
      select entered.id, entered.entered_at, e.*
      from (select distinct holdfast.job_bucket(entered.id) as bucket from entered) as wanted
      cross join lateral (
        select * from holdfast.job_end where job_end.bucket = wanted.bucket offset 0
      ) as e
      cross join lateral unnest(e.ids) as one (id)
      join entered on entered.id = one.id
    ),
    over as materialized (
      -- Keeps each job's newest end. An end that did not finish the job (a retry, for example) is older than the job's next entry.
      select distinct on (ended.id) ended.* from ended order by ended.id, ended.is_done desc, ended.ended_at desc
    ),
    claims as materialized (
      select distinct on (c.id) c.*
      from (
        select claim.session, claim.fence, claim.claimed_at, unnest(claim.ids) as id
        from holdfast.claim
        where cardinality(job_find.ids) > 10
          or claim.ids && job_find.ids
      ) as c
      join entered on entered.id = c.id
      where not exists (select from ended where ended.id = c.id and ended.fence = c.fence)
      order by c.id, c.fence desc
    )
    select
      w.id, 'waiting', w.queue, w.priority, w.kind, w.payload, null::json, null::json, w.enqueued_at, w.run_at, null::timestamptz,
      null::timestamptz, null::integer, null::bigint, w.failed, w.crashes, w.max_crashes, null::text, null::json, w.log,
      w.failures, w.links, w.meta, null::bigint
    from waits w
    union all
    select
      s.id, s.state, s.queue, s.priority, s.kind, s.payload, null, s.error, s.enqueued_at, null, s.claimed_at, s.ended_at, s.session,
      s.fence, s.failed, s.crashes, s.max_crashes, null, s.progress, s.log, s.failures, s.links, s.meta, null
    from stopped s
    union all
    select
      a.id, a.state, a.queue, a.priority, a.kind, a.payload, a.result, a.error, a.enqueued_at, null, a.claimed_at, a.ended_at, a.session,
      a.fence, a.failed, a.crashes, a.max_crashes, null, a.progress, a.log, a.failures, a.links, a.meta, null
    from archived a
    union all
    select
      j.id,
      found.state, j.queue, j.priority, j.kind, j.payload,
      case when found.state = 'done' then (
        select nullif(substr(one.result::text, 2, length(one.result::text) - 2), '')::json
        from rows from (unnest(over.ids), json_array_elements(over.results)) as one (id, result)
        where one.id = j.id
        limit 1
      ) end,
      null, coalesce(j.enqueued_at, j.entered_at), null,
      case when found.state = 'done' then over.claimed_at else claims.claimed_at end,
      case when found.state = 'done' then over.ended_at end,
      case when found.state = 'done' then over.session else claims.session end,
      case when found.state = 'done' then over.fence else claims.fence end,
      coalesce(j.failed, 0), coalesce(j.crashes, 0::smallint), coalesce(j.max_crashes, 3::smallint), n.cancelled, n.progress,
      (j.log || n.log)[greatest(1, cardinality(j.log || n.log) - 99):], j.failures, j.links, j.meta, j.entry
    from entered j
    left join over on over.id = j.id
    left join claims on claims.id = j.id
    cross join lateral (
      select case
        when over.is_done then 'done'
        when claims.id is not null then 'running'
        when over.ended_at > j.entered_at or exists (select from holdfast.job_removed r where r.entry = j.entry) then null
        else 'ready'
      end as state
      offset 0
    ) as found
    left join lateral (
      select *
      from holdfast.job_note
      where job_note.id = j.id
        and job_note.fence = case when found.state = 'done' then over.fence else claims.fence end
      offset 0
    ) as n on true
    where found.state is not null
  $$;
comment on function holdfast.job_find(bigint[]) is
  'Returns these jobs with their states: waiting, ready, running, done, cancelled, expired, discarded or buried. Returns nothing for a job '
  'that does not exist or whose retention time has passed.';

create or replace function holdfast.job_input(payload json) returns jsonb
  language sql immutable strict parallel safe
  set search_path = pg_catalog, pg_temp
  -- The type jsonb rejects the character \u0000.
  as $$ select case when position('\u0000' in payload::text) = 0 then payload::jsonb end $$;
comment on function holdfast.job_input(json) is
  'Returns a job''s input as jsonb, for indexes that speed up searches by input. Null if the input contains the character \u0000. See '
  'docs/guides/find-jobs.md.';

-- PostgreSQL inlines this function only without a search_path setting.
create or replace function holdfast.job_is_late(links jsonb) returns boolean
  language sql volatile
  as $$
    select coalesce(
      (links operator(pg_catalog.->>) 'startBy')::pg_catalog.timestamptz operator(pg_catalog.<=) pg_catalog.clock_timestamp(), false
    )
  $$;
comment on function holdfast.job_is_late(jsonb) is 'Whether the deadline of a job with these links has passed.';

create or replace function holdfast.job_lost() returns table (id bigint, entry bigint)
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select j.id, j.entry
    from holdfast.job j
    where not exists (select from holdfast.job newer where newer.id = j.id and newer.entry > j.entry)
      and not exists (select from holdfast.job_ready r where r.entry = j.entry)
      and exists (select from holdfast.job_find(array[j.id]) as f where f.state = 'ready')
      -- Claims skip a job whose deadline has passed. Maintenance ends the job, as its deadline is still recorded.
      and not (holdfast.job_is_late(j.links) and exists (select from holdfast.job_deadline d where d.id = j.id))
  $$;
comment on function holdfast.job_lost() is
  'Returns jobs that claims have skipped although no worker has run them. The result must always be empty. Reads all jobs.';

create or replace function holdfast.lane_faults() returns table (key bigint, name text, active integer, counted bigint)
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    with placed as (
      select links, 'all' as holds from holdfast.job_live where links ?| '{lane,budgets}'
      union all
      select links, 'lane' from holdfast.waiting where stage = 'budget'
      union all
      -- A job that claims skip because its deadline has passed keeps its places until maintenance ends it.
      select f.links, 'all'
      from holdfast.job_deadline d
      cross join lateral holdfast.job_find(array[d.id]) as f
      where d.start_by <= clock_timestamp()
        and f.state = 'ready'
        and f.links ?| '{lane,budgets}'
        and not exists (select from holdfast.job_ready r where r.entry = f.entry)
    ),
    counted as (
      select key, sum(weight) as weights
      from (
        select p.key, p.weight from placed cross join lateral holdfast.job_places(placed.links, placed.holds) as p
        union all
        select p.key, p.weight from holdfast.follow_up cross join lateral unnest(keys, weights) as p (key, weight)
        union all
        select p.key, p.weight from holdfast.lane_reservation cross join lateral unnest(keys, weights) as p (key, weight)
      ) as facts
      group by key
    )
    select coalesce(lane.key, counted.key), lane.name, lane.active, coalesce(counted.weights, 0)
    from holdfast.lane
    full join counted on counted.key = lane.key
    where lane.active is distinct from coalesce(counted.weights, 0)
  $$;
comment on function holdfast.lane_faults() is
  'Returns the lanes, budgets and rounds whose active count is wrong. The result must always be empty.';

-- Workers and queues.

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

create or replace function holdfast.job_ready_sample(queues bigint[])
  returns table (queue bigint, entry bigint, kind text, enqueued_at timestamptz)
  language sql
  set search_path = pg_catalog, pg_temp
  as $$
    select found.*
    from holdfast.job_levels() as level
    cross join lateral (
      select job_ready.queue, entry, kind, coalesce(enqueued_at, entered_at)
      from holdfast.job_ready
      where job_ready.queue = level.queue
        and job_ready.priority = level.priority
      limit 1000
    ) as found
    where level.queue = any(queues)
    union
    select found.*
    from unnest(queues) as requested (queue)
    cross join lateral (
      select job.queue, job.entry, job.kind, coalesce(enqueued_at, entered_at)
      from holdfast.job_skipped
      join holdfast.job on job.id = job_skipped.id and job.entry = job_skipped.entry
      where job_skipped.queue = requested.queue
        and not exists (select from holdfast.job_removed where job_removed.entry = job.entry)
      limit 10000
    ) as found
  $$;
comment on function holdfast.job_ready_sample(bigint[]) is
  'Returns the queues'' ready jobs: at most 1,000 per queue and priority, and 10,000 per queue whose kind was unknown to a worker.';

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
  'worker of the queue has a definition for the kind.';

-- PostgreSQL inlines this function only without a search_path setting.
create or replace function holdfast.notification_channel() returns text
  language sql immutable parallel safe
  as $$ select (pg_catalog.parse_ident('holdfast.job'))[1] $$;
comment on function holdfast.notification_channel() is 'Returns the channel on which all instances listen, which is the name of this schema.';

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
  'Wakes a queue''s idle workers. Sends no notification if all workers are busy, because a notification would slow down every commit.';

create or replace function holdfast.job_announce_waiting() returns void
  language sql
  set search_path = pg_catalog, pg_temp
  as $$
    select pg_notify(holdfast.notification_channel(), 'jobs-waiting ' || session)
    from (select session from holdfast.worker where sleeping order by random() limit 1) as chosen
  $$;
comment on function holdfast.job_announce_waiting() is
  'Notifies an idle worker of new jobs in the table waiting, so that its maintenance reads their start times. Sends no notification if all '
  'workers are busy, because busy workers run maintenance often.';

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

-- Enqueueing.

create or replace function holdfast.largest_job_number() returns bigint
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    return greatest(
      (select max(id) from holdfast.job),
      (select max(entry) from (select entry from holdfast.job order by id desc limit 1000) as latest),
      (select max(id) from holdfast.waiting),
      (select max(id) from holdfast.job_stopped),
      (select max(id) from holdfast.job_archive),
      (select max(number) from holdfast.follow_up)
    );
  end
  $$;
comment on function holdfast.largest_job_number() is
  'Returns the largest job id in the tables. Null if there are no jobs. Uses indexes.';

create or replace function holdfast.jobs_largest_numbers() returns table (sequence regclass, largest bigint)
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select 'holdfast.job_number'::regclass, holdfast.largest_job_number()
    union all
    select 'holdfast.fence'::regclass, greatest(
      (select max(fence) from holdfast.claim),
      (select max(fence) from (select fence from holdfast.job_stopped order by id desc limit 1000) as latest),
      (select max(fence) from (select fence from holdfast.job_end order by bucket desc limit 1000) as latest)
    )
    union all
    select 'holdfast.session'::regclass, greatest(
      (select max(session) from holdfast.worker),
      (select max(session) from holdfast.claim),
      (select max(session) from holdfast.follow_up)
    )
  $$;
comment on function holdfast.jobs_largest_numbers() is
  'Returns the largest number from each sequence in this module''s tables. See sequence_positions().';

create or replace function holdfast.job_era() returns integer
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    floor bigint;
    known integer;
  begin
    if not pg_is_in_recovery() then
      select era into known from holdfast.noticed_server;
      if found then
        return known;
      end if;
    end if;
    -- Does not use advance_fence(), which would keep its row locked until the user's transaction ends.
    floor := holdfast.largest_job_number();
    -- Moves the sequence only if it may repeat ids, because a new installation's ids start at 1.
    if floor > (select last_value - (not is_called)::integer from holdfast.job_number)
      or not exists (select from holdfast.server_generation where generation = 0)
    then
      floor := greatest(floor, holdfast.clock_floor());
    end if;
    perform holdfast.raise_sequence('holdfast.job_number', floor, false);
    return (select era + holdfast.is_another_cluster()::integer from holdfast.server_generation);
  end
  $$;
comment on function holdfast.job_era() is
  'Must be called before ids are assigned to new jobs. Returns the era of new entries (see job). After a restart, failover or restore that '
  'no instance has detected yet, it moves job_number past all ids that were used before.';

create or replace function holdfast.job_enqueue(
  heads json,
  inputs json,
  is_alone boolean,
  patience text,
  metas json default null,
  reservation bigint default null,
  has_worker boolean default false,
  out ids bigint[],
  out are_new boolean[]
)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    kinds_of_heads record;
    is_reserved boolean := false;
    first_queue bigint;
    last_queue bigint;
    this_era constant integer := holdfast.job_era();
  begin
    if reservation is not null then
      -- Maintenance deletes a reservation that has expired. Each of both returns the room or uses it, but never both.
      delete from holdfast.lane_reservation where number = reservation;
      is_reserved := found;
    end if;
    -- A head contains the options that several jobs share. Most heads have none of the options below. A search in the text costs less than
    -- parsing the JSON.
    if heads::text ~ '"(delay_ms|run_at|start_by|start_by_ms|links|unique)"\s*:' then
      select
        coalesce(bool_or("unique" is not null), false) as are_unique,
        coalesce(bool_or(delay_ms > 0 or run_at > clock_timestamp() or links ?| '{lane,budgets,group,after}'), false) as may_wait,
        coalesce(bool_or(start_by is not null or start_by_ms is not null), false) as have_deadlines
      into kinds_of_heads
      from json_to_recordset(heads)
        as h (delay_ms bigint, run_at timestamptz, start_by timestamptz, start_by_ms bigint, links jsonb, "unique" json);
      if kinds_of_heads.have_deadlines then
        select d.ids, d.are_new
        into ids, are_new
        from holdfast.job_enqueue_with_deadlines(heads, inputs, is_alone, patience, metas) as d;
        return;
      end if;
      if kinds_of_heads.are_unique then
        select u.ids, u.are_new into ids, are_new from holdfast.job_enqueue_unique(heads, inputs, metas, is_alone, patience) as u;
        return;
      end if;
      if kinds_of_heads.may_wait and not is_reserved then
        -- A caller that has a reservation does not admit the jobs.
        ids := holdfast.job_enqueue_waiting(heads, inputs, metas, is_alone and reservation is null);
        return;
      end if;
    end if;
    with enqueued as (
      insert into holdfast.job (queue, id, entry, era, priority, kind, payload, failed, max_crashes, log, links, meta)
      select
        queue, number, number, this_era, priority, kind, payload, failed, nullif(max_crashes, 3), log, links,
        case when json_typeof(meta) = 'object' then meta end
      from (
        select coalesce(h.id, nextval('holdfast.job_number')) as number, h.*, e.payload, e.meta
        from json_to_recordset(heads)
          as h (id bigint, queue bigint, kind text, priority smallint, failed integer, max_crashes smallint, log json[], links jsonb,
            after_input integer, last_input integer)
        -- Uses an equality, because comparing each head with each input would take a long time for a large workflow.
        cross join lateral generate_series(h.after_input + 1, h.last_input) as g (input)
        join rows from (json_array_elements(inputs), json_array_elements(metas)) with ordinality as e (payload, meta, at)
          on at = g.input
        order by at
        offset 0
      ) as numbered
      returning id, queue
    )
    select array_agg(id), min(queue), max(queue) into ids, first_queue, last_queue from enqueued;
    if not has_worker and exists (select from holdfast.worker where sleeping) then
      -- Most calls enqueue jobs on one queue. Then the heads need not be read again.
      if first_queue = last_queue then
        perform holdfast.job_wake(first_queue, cardinality(ids));
      else
        perform holdfast.job_wake(h.queue, sum(h.last_input - h.after_input)::bigint)
        from json_to_recordset(heads) as h (queue bigint, after_input integer, last_input integer)
        group by h.queue;
      end if;
    end if;
  end
  $$;
comment on function holdfast.job_enqueue(json, json, boolean, text, json, bigint, boolean) is
  'Enqueues jobs. Returns their ids in the order of the inputs. A head applies to the inputs after_input + 1 to last_input: '
  '[{"queue": key, "kind": …, "priority": …, "max_crashes": …, "after_input": …, "last_input": …}]. It may contain "delay_ms", "run_at", '
  '"start_by", "start_by_ms", "links", "unique" (see job_enqueue_unique), "failed" and "log" (of an imported job), and an "id" that the caller has reserved. '
  'is_alone: the call is the only statement in its transaction. patience: see job_enqueue_unique. metas: the meta of each input, in the same '
  'order. Null if no job has a meta. reservation: number of the room that lane_reserve has reserved for all these jobs. Null if there is none. '
  'has_worker: the caller wakes an idle worker of its own, so no worker is notified.';

create or replace function holdfast.job_enqueue_waiting(heads json, inputs json, metas json, is_alone boolean) returns bigint[]
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    ids bigint[];
    free bigint[];
    linked integer;
  begin
    perform holdfast.job_era();
    with enqueued as (
      insert into holdfast.waiting (id, queue, priority, kind, payload, failed, max_crashes, run_at, log, links, meta)
      select
        -- A payload of JSON null is read as an SQL null.
        coalesce(id, nextval('holdfast.job_number')), queue, priority, kind, coalesce(payload, 'null'), coalesce(failed, 0), max_crashes,
        coalesce(run_at, clock_timestamp() + make_interval(secs => coalesce(delay_ms, 0) / 1000.0)), log, links,
        case when json_typeof(meta) = 'object' then meta end
      from (
        select h.*, e.payload, e.meta
        from (
          select
            id, queue, kind, priority, failed, max_crashes, log, after_input, last_input,
            case when not coalesce(links ? 'after', false) then delay_ms end as delay_ms,
            case when not coalesce(links ? 'after', false) then run_at end as run_at,
            holdfast.job_resolve_links(links, queue, kind, delay_ms, run_at) as links
          from json_to_recordset(heads)
            as h (id bigint, queue bigint, kind text, priority smallint, failed integer, max_crashes smallint, delay_ms bigint,
              run_at timestamptz, log json[], links jsonb, after_input integer, last_input integer)
          offset 0
        ) as h
        -- Uses an equality, because comparing each head with each input would take a long time for a large workflow.
        cross join lateral generate_series(h.after_input + 1, h.last_input) as g (input)
        join rows from (json_array_elements(inputs), json_array_elements(metas)) with ordinality as e (payload, meta, at)
          on at = g.input
        order by at
        offset 0
      ) as in_order
      returning id, run_at, links
    )
    select
      array_agg(id),
      coalesce(array_agg(id) filter (where run_at <= clock_timestamp() and not coalesce(links ?| '{lane,budgets,after}', false)), '{}'),
      count(*) filter (where links ?| '{lane,budgets,after}')
    into ids, free, linked
    from enqueued;
    -- Locks on lanes and dependencies must be short. They must be released before a caller's transaction ends or a commit is flushed. A
    -- caller without a transaction calls job_run_follow_ups next. Otherwise this function requests maintenance.
    perform holdfast.job_admit(free);
    if linked > 0 and not is_alone then
      perform holdfast.job_request_maintenance();
    end if;
    perform holdfast.job_announce_waiting();
    return ids;
  end
  $$;
comment on function holdfast.job_enqueue_waiting(json, json, json, boolean) is
  'Enqueues jobs, some of which may not run yet. See job_enqueue.';

create or replace function holdfast.job_make_ready(ids bigint[]) returns integer
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    moved integer;
    this_era constant integer := holdfast.job_era();
  begin
    with gone as (
      delete from holdfast.waiting where id = any(ids) returning *
    ),
    ready as (
      insert into holdfast.job
        (queue, id, entry, era, priority, kind, payload, enqueued_at, failed, crashes, max_crashes, log, failures, links, meta)
      select queue, id, nextval('holdfast.job_number'), this_era, priority, kind, payload, enqueued_at, nullif(failed, 0),
        nullif(crashes, 0), nullif(max_crashes, 3), log, failures, links, meta
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
    placed bigint[];
    early bigint[];
  begin
    with asked as materialized (
      select id, stage, priority, run_at, links from holdfast.waiting where id = any(ids) order by id for update skip locked
    )
    select
      array_agg(id) filter (where is_due and not links ?| '{lane,budgets}' and not is_before),
      array_agg(id order by priority desc, run_at, id) filter (where is_due and links ?| '{lane,budgets}' and not is_before),
      array_agg(id) filter (where is_before)
    into free, placed, early
    from asked
    cross join lateral (
      select run_at <= clock_timestamp() as is_due, links ? 'after' and not links ? 'met' as is_before
    ) as facts
    where stage = 'time';
    if free is not null then
      admitted := holdfast.job_make_ready(free);
    end if;
    if placed is not null or early is not null then
      perform pg_advisory_xact_lock(holdfast.lock_class('job follow-ups'), 0);
    end if;
    if early is not null then
      free := holdfast.job_wait_for_dependencies(early);
      if free <> '{}' then
        -- These jobs no longer wait for other jobs, so job_admit can take them to their next stage.
        admitted := admitted + holdfast.job_admit(free);
      end if;
    end if;
    if placed is not null then
      admitted := admitted + holdfast.lane_enter(placed);
    end if;
    return admitted;
  end
  $$;
comment on function holdfast.job_admit(bigint[]) is
  'Moves due jobs with links to their next stage: to their dependencies, lanes and budgets, or to the table job. Returns the number of jobs '
  'that became ready.';

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
            when 'expired' then true
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
  'Must be called when jobs end or leave the table job: [{"id": …, "queue": …, "kind": …, "state": …, "links": …}]. '
  'Frees their keys and records follow-ups. Returns the follow-ups'' numbers for job_run_follow_ups.';

create or replace function holdfast.job_remove(job_id bigint) returns setof holdfast.job
  language sql
  set search_path = pg_catalog, pg_temp
  as $$
    with newest as materialized (
      select * from holdfast.job where job.id = job_id order by entry desc limit 1
    ),
    removed as (
      insert into holdfast.job_removed (entry, queue) select entry, queue from newest
    ),
    gone as (
      delete from holdfast.job_skipped using newest where job_skipped.entry = newest.entry
    )
    select * from newest
  $$;
comment on function holdfast.job_remove(bigint) is
  'Removes the entry of a ready job, so that no claim finds it. The caller holds the lock that blocks claims of the job: the lock on the '
  'queue''s claims, or the lock on the job''s unique key.';

create or replace function holdfast.job_lock_waiting(job_id bigint, is_to_change boolean) returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    if is_to_change then
      perform from holdfast.waiting where id = job_id for update;
    else
      perform from holdfast.waiting where id = job_id for key share;
    end if;
    return found or exists (select from holdfast.job_find(array[job_id]) as f where f.state = 'ready');
  end
  $$;
comment on function holdfast.job_lock_waiting(bigint, boolean) is
  'Locks a waiting job whose unique key the caller has locked, so that it does not start until the transaction ends. Returns false if the '
  'job is no longer waiting or ready.';

create or replace function holdfast.job_look_at_list(list bigint) returns bigint
  language sql
  set search_path = pg_catalog, pg_temp
  as $$
    -- The next job of the list may need less room than the job that has left.
    insert into holdfast.follow_up (session, keys, weights) values (0, array[list], '{0}') returning number
  $$;
comment on function holdfast.job_look_at_list(bigint) is
  'Records a follow-up without an owner that admits the next jobs of the list of a lane or budget, because its first job may have left. Returns '
  'the number of the follow-up.';

create or replace function holdfast.job_replace(
  job_id bigint, input json, new_meta json, new_priority smallint, new_run_at timestamptz, new_start_by timestamptz
) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    old holdfast.job;
    deadline constant jsonb := case when new_start_by is null then '{}' else jsonb_build_object('startBy', new_start_by) end;
    was_suspended boolean := false;
    waited record;
    this_era integer;
  begin
    -- A job that is sleeping or waiting for a retry may have steps, which belong to the old input.
    if input is not null then
      -- The start time of a sleeping job is the end of its sleep, which belongs to the old input too.
      was_suspended := exists (
        select
        from holdfast.job_step
        join holdfast.waiting on waiting.id = job_step.job
        where job_step.job = job_id
          and job_step.kind in ('sleep', 'event')
          and job_step.ended_at is null
          and waiting.stage = 'time'
      );
      delete from holdfast.job_step where job = job_id;
      delete from holdfast.job_event where job = job_id;
      if was_suspended then
        new_run_at := coalesce(new_run_at, clock_timestamp());
        perform holdfast.job_announce_waiting();
      end if;
    end if;
    if new_start_by is not null then
      insert into holdfast.job_deadline (id, start_by)
      values (job_id, new_start_by)
      on conflict on constraint job_deadline_pkey do update
      set start_by = excluded.start_by;
    end if;
    -- Clears the failures, because they belong to the old input. A job with a new priority or time gets a new position. A job that is
    -- waiting in a list enters its lane again. A job with dependencies gets the new time after its dependencies have ended.
    update holdfast.waiting
    set payload = coalesce(input, payload),
        meta = new_meta,
        priority = new_priority,
        stage = case when lane is not null and is_moved then 'time' else stage end,
        lane = case when not is_moved then lane end,
        rank = case when not is_moved then rank end,
        seq = case when not is_moved then seq end,
        run_at = case when stage = 'jobs' then run_at else coalesce(new_run_at, run_at) end,
        links = nullif(
          coalesce(links, '{}') || deadline || case
            when stage = 'jobs' and new_run_at is not null then jsonb_build_object('runAt', new_run_at)
            else '{}'
          end,
          '{}'
        ),
        failed = case when input is null then failed else 0 end,
        crashes = case when input is null then crashes else 0 end,
        failures = case when input is null then failures end
    from (
      select
        case when w.stage = 'budget' then w.lane end as list, new_run_at is not null or w.priority <> new_priority as is_moved
      from holdfast.waiting w
      where w.id = job_id
    ) as seen
    where id = job_id
    returning waiting.queue, waiting.kind, waiting.links, case when seen.is_moved then seen.list end as left_list
    into waited;
    if found then
      if waited.left_list is not null then
        perform holdfast.job_look_at_list(waited.left_list);
        if waited.links ? 'lane' then
          perform holdfast.job_release_links(jsonb_build_array(jsonb_build_object(
            'id', job_id, 'queue', waited.queue, 'kind', waited.kind, 'state', 'retried', 'links', waited.links, 'holds', 'lane'
          )));
        end if;
        perform holdfast.job_request_maintenance();
      end if;
      return;
    end if;
    select * into old from holdfast.job_remove(job_id);
    if old.id is null then
      return;
    end if;
    if input is not null then
      old.payload := input;
      old.failed := null;
      old.crashes := null;
      old.failures := null;
    end if;
    old.links := nullif(coalesce(old.links, '{}') || deadline, '{}');
    if new_run_at is null then
      -- Before a number is drawn. After a restore, job_era() moves the sequence past the numbers that were used before.
      this_era := holdfast.job_era();
      insert into holdfast.job
        (queue, id, entry, era, priority, kind, payload, enqueued_at, failed, crashes, max_crashes, log, failures, links, meta)
      values (
        old.queue, old.id, nextval('holdfast.job_number'), this_era, new_priority, old.kind, old.payload,
        coalesce(old.enqueued_at, old.entered_at), old.failed, old.crashes, old.max_crashes, old.log, old.failures, old.links, new_meta
      );
      return;
    end if;
    insert into holdfast.waiting
      (id, queue, priority, kind, payload, enqueued_at, run_at, failed, crashes, max_crashes, log, failures, links, meta)
    values (
      old.id, old.queue, new_priority, old.kind, old.payload, coalesce(old.enqueued_at, old.entered_at), new_run_at,
      coalesce(old.failed, 0), coalesce(old.crashes, 0::smallint), coalesce(old.max_crashes, 3::smallint), old.log, old.failures, old.links,
      new_meta
    );
    perform holdfast.job_release_links(jsonb_build_array(
      jsonb_build_object('id', old.id, 'queue', old.queue, 'kind', old.kind, 'state', 'retried', 'links', old.links)
    ));
    perform holdfast.job_request_maintenance();
  end
  $$;
comment on function holdfast.job_replace(bigint, json, json, smallint, timestamptz, timestamptz) is
  'Replaces the meta and the priority of a waiting or ready job that the caller has locked. Also replaces its input, its time and its '
  'deadline, unless they are null. A new input also removes the failures, the steps and the events.';

create or replace function holdfast.job_enqueue_unique(
  heads json,
  inputs json,
  metas json,
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
    this_era integer;
    at_once bigint[] := '{}';
    has_waiting boolean := false;
    new_links jsonb;
    is_new boolean;
  begin
    if patience is not null then
      perform set_config('lock_timeout', patience, true);
    end if;
    this_era := holdfast.job_era();
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
        json_to_recordset(heads) as (queue bigint, kind text, priority smallint, failed integer, max_crashes smallint, delay_ms bigint,
          run_at timestamptz, log json[], links jsonb, "unique" jsonb),
        json_array_elements(inputs),
        json_array_elements(metas)
      ) with ordinality as a (queue, kind, priority, failed, max_crashes, delay_ms, run_at, log, links, unique_by, payload, meta, at)
      order by a.queue, a.kind collate "C", a.unique_by->>'key' collate "C", a.at
    loop
      one.meta := case when json_typeof(one.meta) = 'object' then one.meta end;
      loop
        select
          u.id, u.until, u.expires_at <= clock_timestamp() as is_over, coalesce(f.state in ('waiting', 'ready'), false) as waits,
          coalesce(f.state = 'running', false) as runs
        into held
        from holdfast.unique_job u
        left join lateral (
          select state from holdfast.job_find(array[u.id])
        ) as f on true
        where u.queue = one.queue
          and u.kind = one.kind
          and u.key = one.key;
        if not found then
          number := nextval('holdfast.job_number');
          insert into holdfast.unique_job (queue, kind, key, id, until, expires_at)
          values (one.queue, one.kind, one.key, number, one.until, one.expires_at)
          on conflict on constraint unique_job_pkey do nothing;
          is_new := found;
          -- If another transaction has inserted the key first, the loop reads the key again.
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
            -- A claim also locks the key, so it skips the job while this transaction is open.
            if one.existing = 'keep' then
              perform
              from holdfast.unique_job u
              where u.queue = one.queue and u.kind = one.kind and u.key = one.key and u.id = held.id
              for key share;
            else
              -- An older snapshot would not show that a claim has taken the job.
              perform holdfast.require_read_committed();
              perform
              from holdfast.unique_job u
              where u.queue = one.queue and u.kind = one.kind and u.key = one.key and u.id = held.id
              for update;
            end if;
            continue when not found or not holdfast.job_lock_waiting(held.id, one.existing <> 'keep');
            if one.existing <> 'keep' then
              perform holdfast.job_replace(
                held.id, one.payload, one.meta, one.priority, one.due_at, (one.links->>'startBy')::timestamptz
              );
              has_waiting := has_waiting or one.due_at is not null;
            end if;
            at_once := at_once || one.queue;
          end if;
        end if;
        exit;
      end loop;
      ids[one.at] := number;
      are_new[one.at] := is_new;
      continue when not is_new;
      new_links := coalesce(one.links, '{}') || jsonb_build_object('unique', jsonb_build_object('key', one.key, 'until', one.until));
      if one.links is not null then
        perform holdfast.job_enqueue_waiting(
          json_build_array(json_build_object(
            'id', number, 'queue', one.queue, 'kind', one.kind, 'priority', one.priority, 'max_crashes', one.max_crashes,
            'run_at', one.due_at, 'failed', one.failed, 'log', one.log, 'links', new_links, 'after_input', 0, 'last_input', 1
          )),
          json_build_array(one.payload),
          json_build_array(one.meta),
          is_alone
        );
      elsif one.due_at is not null then
        insert into holdfast.waiting (id, queue, priority, kind, payload, failed, max_crashes, run_at, log, links, meta)
        values (
          number, one.queue, one.priority, one.kind, one.payload, coalesce(one.failed, 0), one.max_crashes, one.due_at, one.log, new_links,
          one.meta
        );
        has_waiting := true;
      else
        insert into holdfast.job (queue, id, entry, era, priority, kind, payload, failed, max_crashes, log, links, meta)
        values (
          one.queue, number, number, this_era, one.priority, one.kind, one.payload, one.failed, nullif(one.max_crashes, 3), one.log, new_links,
          one.meta
        );
        at_once := at_once || one.queue;
      end if;
    end loop;
    perform holdfast.job_wake(queue, count(*)) from unnest(at_once) as queue group by queue;
    if has_waiting then
      perform holdfast.job_announce_waiting();
    end if;
  end
  $$;
comment on function holdfast.job_enqueue_unique(json, json, json, boolean, text) is
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
    where held.expires_at <= clock_timestamp()
      or held.id = excluded.id;
    return found;
  end
  $$;
comment on function holdfast.job_retake_key(bigint, bigint, text, jsonb) is
  'Claims the unique key for a finished job that will run again. Returns false if another job has the key.';

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
        where expires_at <= (select clock_timestamp())
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

create or replace function holdfast.job_read_budgets(budgets jsonb, namespace text) returns jsonb
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    one record;
    result jsonb;
  begin
    if budgets is null then
      return null;
    end if;
    if jsonb_typeof(budgets) <> 'array' or jsonb_array_length(budgets) > 10 then
      raise exception 'Expected budgets to be a JSON array of at most 10 objects, got %', budgets
        using errcode = '22023';
    end if;
    if (select count(distinct b->>'name') < count(b->>'name') from jsonb_array_elements(budgets) as b) then
      raise exception 'Expected each budget at most once, got %', budgets
        using errcode = '22023';
    end if;
    for one in
      select b, b->>'name' as name, p.*
      from jsonb_array_elements(budgets) as b
      cross join lateral (
        select
          coalesce((b->>'weight')::integer, 1) as weight, coalesce((b->>'max')::integer, 1000000) as max, (b->>'count')::integer as count,
          (b->>'per')::interval as per, coalesce((b->>'burst')::integer, (b->>'count')::integer) as burst
      ) as p
    loop
      if coalesce(one.name, '') = ''
        or length(one.name) > 500
        or not one.b ?| '{max,count}'
        or (one.count is null) <> (one.per is null)
        or one.count < 1
        or one.per <= interval '0'
        or one.max not between 1 and 1000000
        or one.burst not between 1 and 1000000
        or one.weight not between 1 and least(one.max, one.burst)
      then
        raise exception 'Expected a budget with a name, max, a rate (count and per), or both, and a weight that fits, got %', one.b
          using errcode = '22023',
                hint = 'For example {"name": "openai", "max": 20, "weight": 2} or {"name": "tenant:42", "count": 100, "per": "1 minute"}.';
      end if;
      result := coalesce(result, '[]') || jsonb_strip_nulls(jsonb_build_object(
        'key', holdfast.lock_key(namespace, 'budget/' || one.name),
        'name', one.name,
        'max', one.max,
        'every', greatest(1, ceil(extract(epoch from one.per) * 1e6 / one.count))::bigint,
        'burst', one.burst,
        'weight', one.weight
      ));
    end loop;
    return result;
  end
  $$;
comment on function holdfast.job_read_budgets(jsonb, text) is 'Checks and completes the budgets of a job that SQL enqueues.';

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
  lane text default null,
  meta jsonb default null,
  start_by timestamptz default null,
  budgets jsonb default null,
  in_group text default null
) returns bigint
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    key bigint;
    names constant text := concat_ws(':', queue, kind, unique_key, lane, in_group, namespace);
    links jsonb;
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
    if in_group = '' or length(in_group) > 500 then
      raise exception 'Expected in_group to have 1 to 500 characters, got %', length(in_group)
        using errcode = '22023';
    end if;
    if octet_length(input) > 1000000 then
      raise exception 'Expected a payload of at most 1000000 bytes of JSON, got %', octet_length(input)
        using errcode = '22023',
              hint = 'Store large data elsewhere, such as in a table of your own, and put a reference to it into the job.';
    end if;
    if jsonb_typeof(meta) <> 'object' or octet_length(meta::text) > 2000 then
      raise exception 'Expected meta to be a JSON object of at most 2000 bytes, got a JSON % of % bytes', jsonb_typeof(meta), octet_length(meta::text)
        using errcode = '22023',
              hint = 'Put data that the handler needs into the payload.';
    end if;
    if unique_key = '' or length(unique_key) > 500 then
      raise exception 'Expected unique_key to have 1 to 500 characters, got %', length(unique_key)
        using errcode = '22023';
    end if;
    -- The library rejects the same names (src/base/missing-values.ts). A test compares both.
    if names ~ '(^|[^[:alnum:]_-])(undefined|NaN|Invalid Date)($|[^[:alnum:]_-])|\[object [A-Za-z]\w*\]' then
      raise exception 'Expected queue, kind, unique_key, lane, in_group and namespace to have a value in every part, got "%"', names
        using errcode = '22023',
              hint = 'A template literal interpolated a value that is missing: every caller without it would share this name.';
    end if;
    links := nullif(
      jsonb_strip_nulls(jsonb_build_object(
        'lane', case when lane is not null then jsonb_build_object('name', lane, 'max', 1) end,
        'group', case when in_group is not null then jsonb_build_object('name', in_group, 'weight', 1) end,
        'budgets', holdfast.job_read_budgets(budgets, namespace)
      )),
      '{}'
    );
    key := holdfast.lock_key(namespace, 'queue/' || queue);
    perform holdfast.job_record_queue(key, namespace, queue);
    inputs := '[' || input || ']';
    heads := json_build_array(json_build_object(
      'queue', key,
      'kind', kind,
      'priority', priority,
      'max_crashes', 3,
      'delay_ms', (extract(epoch from delay) * 1000)::bigint,
      'run_at', run_at,
      'start_by', start_by,
      'links', links,
      'after_input', 0,
      'last_input', 1,
      'unique', case
        when unique_key is not null then json_build_object('key', unique_key, 'until', 'ended', 'existing', 'keep')
      end
    ));
    return (
      select ids[1]
      from holdfast.job_enqueue(heads, inputs, false, null, case when meta <> '{}' then json_build_array(meta) end)
    );
  end
  $$;
comment on function holdfast.enqueue(text, text, anycompatible, integer, interval, timestamptz, text, text, text, jsonb, timestamptz, jsonb, text) is
  'Enqueues a job from SQL, in the current transaction: '
  'select holdfast.enqueue(''default'', ''send-email'', ''{"to": "a@example.com"}''). '
  'Returns its id, or the id of the job that already has the unique_key.';

-- Claims.

-- PostgreSQL inlines this function only without a search_path setting. Therefore each name is qualified with its schema.
create or replace function holdfast.job_text(
  id bigint, kind integer, payload json, priority smallint, failed integer, crashes smallint, max_crashes smallint, links jsonb,
  meta json
) returns text
  language sql stable
  as $$
    -- The short form is enough for most jobs, which have only default values. Building the long form costs as much as the claim itself.
    select case
      when priority operator(pg_catalog.=) 0 and failed is null and crashes is null and max_crashes is null and meta is null
        and (links is null or links operator(pg_catalog.-) '{lane,budgets,group}'::text[] operator(pg_catalog.=) '{}')
      then pg_catalog.concat('[', id, ',', kind, ',', payload, ']')
      else pg_catalog.concat(
        '[', id, ',', kind, ',', payload, ',', priority, ',', coalesce(failed, 0), ',', coalesce(crashes, 0::pg_catalog.int2), ',',
        coalesce(max_crashes, 3::pg_catalog.int2), ',', coalesce((links operator(pg_catalog.-) '{lane,budgets,group}'::text[])::text, 'null'), ',' operator(pg_catalog.||) meta::text, ']'
      )
    end
  $$;
comment on function holdfast.job_text(bigint, integer, json, smallint, integer, smallint, smallint, jsonb, json) is
  'Describes a claimed job for the worker, without the limits that its admission has checked. kind is the position in the list of kinds.';

create or replace function holdfast.job_claim_keyed(keyed jsonb, most integer, out ids bigint[], out texts text, out linked jsonb)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    busy bigint[];
    chosen bigint[];
  begin
    with held as materialized (
      select t.entry, u.ctid as place
      from jsonb_to_recordset(keyed) as t (id bigint, entry bigint, queue bigint, kind text, links jsonb)
      join holdfast.unique_job u on u.queue = t.queue and u.kind = t.kind and u.key = t.links->'unique'->>'key' and u.id = t.id
    ),
    locked as materialized (
      select u.ctid as place from holdfast.unique_job u where u.ctid = any(array(select place from held)) for update skip locked
    )
    select coalesce(array_agg(entry), '{}')
    into busy
    from held
    where place not in (select place from locked);
    -- A transaction that replaced a job may have committed just before the job's key was locked. Therefore job_removed is read after the
    -- key is locked.
    select
      array_agg(k.entry), array_agg(k.id), string_agg(k.text, ',' order by k.at),
      jsonb_agg(jsonb_build_object('id', k.id, 'queue', k.queue, 'kind', k.kind, 'state', 'running', 'links', k.links))
    into chosen, ids, texts, linked
    from (
      select t.*
      from rows from (
        jsonb_to_recordset(keyed) as (id bigint, entry bigint, queue bigint, kind text, links jsonb, text text)
      ) with ordinality as t (id, entry, queue, kind, links, text, at)
      where not t.entry = any(busy)
        and not exists (select from holdfast.job_removed r where r.entry = t.entry)
      order by t.at
      limit most
    ) as k;
    if linked is not null then
      perform holdfast.job_free_keys(linked);
    end if;
    delete from holdfast.job_skipped
    where entry = any(array(select (one->>'entry')::bigint from jsonb_array_elements(keyed) as one))
      and (entry = any(chosen) or exists (select from holdfast.job_removed r where r.entry = job_skipped.entry));
    insert into holdfast.job_skipped (entry, id, queue, priority, kind, has_key)
    select k.entry, k.id, k.queue, k.priority, k.kind, true
    from jsonb_to_recordset(keyed) as k (id bigint, entry bigint, queue bigint, priority smallint, kind text)
    where not k.entry = any(coalesce(chosen, '{}'))
      and not exists (select from holdfast.job_removed r where r.entry = k.entry)
    on conflict on constraint job_skipped_pkey do nothing;
  end
  $$;
comment on function holdfast.job_claim_keyed(jsonb, integer) is
  'Chooses entries of unique jobs for a claim, up to the given number. If a transaction is using an entry''s key, the entry moves to '
  'job_skipped. If a claimed job holds its key only until its start, the key becomes free.';

create or replace function holdfast.job_claim_others(others jsonb, most integer, out ids bigint[], out texts text, out linked jsonb)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    keyed record;
    -- Maintenance ends jobs whose deadline has passed.
    have_deadlines constant boolean := others @? '$[*].links.startBy';
  begin
    if have_deadlines then
      others := (select jsonb_agg(one) from jsonb_array_elements(others) as one where not holdfast.job_is_late(one->'links'));
    end if;
    insert into holdfast.job_skipped (entry, id, queue, priority, kind, has_key)
    select entry, id, queue, priority, kind, coalesce(links ? 'unique', false)
    from jsonb_to_recordset(others) as o (entry bigint, id bigint, queue bigint, priority smallint, kind text, links jsonb, at integer)
    where at is null;
    select array_agg(id), string_agg(text, ','), jsonb_agg(jsonb_build_object('id', id, 'queue', queue, 'kind', kind, 'links', links))
    into ids, texts, linked
    from jsonb_to_recordset(others) as o (id bigint, queue bigint, kind text, links jsonb, at integer, text text)
    where at is not null
      and not links ? 'unique';
    select k.*
    into keyed
    from (
      select jsonb_agg(one) as list from jsonb_array_elements(others) as one where one->>'at' is not null and one->'links' ? 'unique'
    ) as unique_jobs
    cross join lateral holdfast.job_claim_keyed(unique_jobs.list, most) as k
    where unique_jobs.list is not null;
    ids := nullif(coalesce(ids, '{}') || coalesce(keyed.ids, '{}'), '{}');
    texts := nullif(concat_ws(',', texts, keyed.texts), '');
    linked := coalesce(linked || keyed.linked, linked, keyed.linked);
    if have_deadlines then
      delete from holdfast.job_deadline where id = any(ids);
    end if;
  end
  $$;
comment on function holdfast.job_claim_others(jsonb, integer) is
  'Processes entries that a claim has read and that need more than their text. Entries of unknown kinds move to job_skipped (at is null). '
  'Jobs with unique keys are claimed by job_claim_keyed. Jobs whose deadline has passed are not claimed.';

-- PostgreSQL inlines this function only without a search_path setting. Therefore each name is qualified with its schema.
create or replace function holdfast.job_levels_of(queues bigint[], is_thorough boolean)
  returns table (queue bigint, priority smallint, place bigint)
  language sql stable
  as $$
    select asked.queue, level.priority, asked.place
    from pg_catalog.unnest(queues) with ordinality as asked (queue, place)
    cross join lateral (
      -- Steps from one priority to the next lower one. Most queues have one priority, so this is cheaper than a search for each priority.
      with recursive step as (
        (
          select frontier.priority
          from holdfast.frontier
          where frontier.queue operator(pg_catalog.=) asked.queue
          order by frontier.priority desc
          limit 1
        )
        union all
        select (
          select frontier.priority
          from holdfast.frontier
          where frontier.queue operator(pg_catalog.=) asked.queue
            and frontier.priority operator(pg_catalog.<) step.priority
          order by frontier.priority desc
          limit 1
        )
        from step
        where step.priority is not null
      )
      select step.priority from step where step.priority is not null
    ) as level
    union all
    select asked.queue, p.priority::pg_catalog.int2, asked.place
    from pg_catalog.unnest(queues) with ordinality as asked (queue, place)
    cross join pg_catalog.generate_series(-5, 5) as p (priority)
    where is_thorough
      -- Uses scalar subqueries, because PostgreSQL could run an "exists" as a hash join that reads all entries.
      and (
        select true
        from holdfast.frontier
        where frontier.queue operator(pg_catalog.=) asked.queue
          and frontier.priority operator(pg_catalog.=) p.priority::pg_catalog.int2
        limit 1
      ) is null
      and (
        select true
        from holdfast.job
        where job.queue operator(pg_catalog.=) asked.queue
          and job.priority operator(pg_catalog.=) p.priority::pg_catalog.int2
        limit 1
      )
  $$;
comment on function holdfast.job_levels_of(bigint[], boolean) is
  'Returns the levels of these queues that have been claimed before. is_thorough: also returns levels that no claim has read yet. place: the '
  'position of the queue in queues.';

create or replace function holdfast.job_level_is_unread(in_queue bigint, at_priority smallint, current_era integer) returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    newest holdfast.frontier;
  begin
    select *
    into newest
    from holdfast.frontier
    where frontier.queue = in_queue
      and frontier.priority = at_priority
    order by number desc
    limit 1;
    return case
      when newest.number is null or not newest.is_read or newest.era < current_era then true
      else coalesce(
        (
          select true
          from holdfast.job
          where job.queue = in_queue
            and job.priority = at_priority
            and job.era = newest.era
            and job.xid >= pg_snapshot_xmax(newest.upto)
          limit 1
        ),
        pg_snapshot_xmin(newest.upto) < pg_snapshot_xmax(newest.upto) and (
          select true
          from holdfast.job
          where job.queue = in_queue
            and job.priority = at_priority
            and job.era = newest.era
            and job.xid = any(array(select pg_snapshot_xip(newest.upto)))
          limit 1
        ),
        false
      )
    end;
  end
  $$;
comment on function holdfast.job_level_is_unread(bigint, smallint, integer) is
  'Returns true if claims may not have read all entries of a queue with a priority.';

create or replace function holdfast.job_claim_skipped(
  queues bigint[], paused bigint[], kinds text[], most integer, out ids bigint[], out texts text, out linked jsonb
)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    keyed record;
    left_over integer;
  begin
    with gone as (
      delete from holdfast.job_skipped
      where ctid = any(
        array(
          select job_skipped.ctid
          from holdfast.job_skipped
          where job_skipped.queue = any(queues)
            and job_skipped.queue <> all(paused)
            and job_skipped.kind = any(kinds)
            and not job_skipped.has_key
          order by job_skipped.priority desc, job_skipped.entry
          limit most
        )
      )
      returning id, entry
    )
    select
      array_agg(j.id order by priority desc, j.entry),
      string_agg(
        holdfast.job_text(j.id, array_position(kinds, kind), payload, priority, failed, crashes, max_crashes, links, meta), ','
        order by priority desc, j.entry
      ),
      jsonb_agg(jsonb_build_object('id', j.id, 'queue', queue, 'kind', kind, 'links', links)) filter (where links ?| '{lane,budgets}')
    into ids, texts, linked
    from gone
    join holdfast.job j on j.id = gone.id and j.entry = gone.entry
    where not exists (select from holdfast.job_removed r where r.entry = j.entry)
      and not holdfast.job_is_late(j.links);
    left_over := most - coalesce(cardinality(ids), 0);
    -- Jobs with a busy key, of which there may be many, must not prevent other jobs from being claimed.
    with wanted as materialized (
      select job_skipped.*, j.links->'unique'->>'key' as key
      from holdfast.job_skipped
      join holdfast.job j on j.id = job_skipped.id and j.entry = job_skipped.entry
      where job_skipped.queue = any(queues)
        and job_skipped.queue <> all(paused)
        and job_skipped.kind = any(kinds)
        and job_skipped.has_key
        and not holdfast.job_is_late(j.links)
    ),
    locked as materialized (
      select wanted.id, wanted.entry, wanted.priority
      from (select * from wanted order by priority desc, entry) as wanted
      join holdfast.unique_job u using (queue, kind, key, id)
      order by wanted.priority desc, wanted.entry
      limit left_over
      for update of u skip locked
    ),
    chosen as materialized (
      select id, entry
      from (
        select * from locked
        union all
        -- Jobs that no longer hold a key, for example because their window has expired.
        select wanted.id, wanted.entry, wanted.priority
        from wanted
        left join holdfast.unique_job u using (queue, kind, key, id)
        where u.id is null
      ) as either
      order by priority desc, entry
      limit left_over
    )
    select k.*
    into keyed
    from (
      select jsonb_agg(
        jsonb_build_object(
          'id', j.id, 'entry', j.entry, 'queue', j.queue, 'priority', j.priority, 'kind', j.kind, 'links', j.links,
          'text',
          holdfast.job_text(j.id, array_position(kinds, j.kind), j.payload, j.priority, j.failed, j.crashes, j.max_crashes, j.links, j.meta)
        )
        order by j.priority desc, j.entry
      ) as keyed
      from chosen
      join holdfast.job j on j.id = chosen.id and j.entry = chosen.entry
    ) as s
    cross join lateral holdfast.job_claim_keyed(s.keyed, left_over) as k
    where s.keyed is not null;
    ids := nullif(coalesce(ids, '{}') || coalesce(keyed.ids, '{}'), '{}');
    texts := nullif(concat_ws(',', texts, keyed.texts), '');
    linked := coalesce(linked || keyed.linked, linked, keyed.linked);
    delete from holdfast.job_deadline where id = any(ids);
  end
  $$;
comment on function holdfast.job_claim_skipped(bigint[], bigint[], text[], integer) is
  'Chooses entries of the given kinds that earlier claims skipped, up to the given number. The claims skipped the entries because their '
  'workers did not know the kind or a key was busy.';

create or replace function holdfast.job_next_window(f holdfast.frontier, current_era integer) returns holdfast.frontier
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    everything constant pg_snapshot := '9223372036854775807:9223372036854775807:';
  begin
    if f.era = current_era then
      f.base := f.upto;
      f.upto := pg_current_snapshot();
    elsif pg_snapshot_xmax(f.upto) < pg_snapshot_xmax(everything) then
      -- This level's era has ended, so no more entries are added to the level. All its unread entries form its last window.
      f.base := f.upto;
      f.upto := everything;
    else
      f.era := f.era + 1;
      f.base := '1:1:';
      f.upto := case when f.era = current_era then pg_current_snapshot() else everything end;
    end if;
    f.at_xid := '0';
    f.at_entry := 0;
    f.is_read := false;
    return f;
  end
  $$;
comment on function holdfast.job_next_window(holdfast.frontier, integer) is
  'Opens the next window after a window has been read completely. The caller holds the lock on the claims of the queue.';

create or replace function holdfast.job_read_window(
  inout f holdfast.frontier, kinds text[], most integer, out count integer, out ids bigint[], out texts text, out large_ids bigint[],
  out large_entries bigint[], out large_times timestamptz[], out placed_ids bigint[], out placed_links jsonb[], out others jsonb
)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    -- First reads the transactions that were in progress at base, one by one. Then reads all later transactions as one range.
    from_xid xid8 := greatest(f.at_xid, pg_snapshot_xmax(f.base));
    end_xid xid8 := pg_snapshot_xmax(f.upto);
    late_xid xid8;
    last_xid xid8;
    last_entry bigint;
    one record;
  begin
    if pg_snapshot_xmin(f.base) < pg_snapshot_xmax(f.base) then
      -- Searches each transaction on its own. Before version 17, PostgreSQL would read all later entries to return them in this order.
      late_xid := (
        select late.xid
        from pg_snapshot_xip(f.base) as late (xid)
        where late.xid >= f.at_xid
          and pg_visible_in_snapshot(late.xid, f.upto)
          and exists (
            select
            from holdfast.job
            where job.queue = f.queue
              and job.priority = f.priority
              and job.era = f.era
              and job.xid = late.xid
              and job.entry > case when late.xid = f.at_xid then f.at_entry else 0 end
            -- Prevents a join, which would read all entries.
            offset 0
          )
        order by late.xid
        limit 1
      );
      if late_xid is not null then
        from_xid := late_xid;
        end_xid := (late_xid::text::numeric + 1)::text::xid8;
      end if;
    end if;
    -- Fast path for a claim of one job. Most claims on a queue that is not busy are limited to one job.
    if most = 1 then
      count := 0;
      for one in
        select
          xid, entry, id,
          case
            when kind = any(kinds) and links is null and pg_column_size(payload) <= 2000 and pg_column_compression(payload) is null
              and (select r.entry from holdfast.job_removed r where r.entry = job.entry) is null
            then holdfast.job_text(id, array_position(kinds, kind), payload, priority, failed, crashes, max_crashes, links, meta)
          end as text
        from holdfast.job
        where job.queue = f.queue
          and job.priority = f.priority
          and job.era = f.era
          and (job.xid, job.entry) > (from_xid, case when from_xid = f.at_xid then f.at_entry else 0 end)
          and job.xid < end_xid
          and pg_visible_in_snapshot(job.xid, f.upto)
        order by xid, entry
        limit 2
      loop
        count := count + 1;
        exit when count = 2;
        last_xid := one.xid;
        last_entry := one.entry;
        ids := array[one.id];
        texts := one.text;
      end loop;
      if count = 0 or texts is not null then
        f.at_xid := coalesce(last_xid, f.at_xid);
        f.at_entry := coalesce(last_entry, f.at_entry);
        f.is_read := count <= 1 and late_xid is null;
        return;
      end if;
    end if;
    with candidate as materialized (
      select xid, entry, id, kind, payload, entered_at, priority, failed, crashes, max_crashes, links, meta
      from holdfast.job
      where job.queue = f.queue
        and job.priority = f.priority
        and job.era = f.era
        and (job.xid, job.entry) > (from_xid, case when from_xid = f.at_xid then f.at_entry else 0 end)
        and job.xid < end_xid
        and pg_visible_in_snapshot(job.xid, f.upto)
      order by xid, entry
      limit most + 1
    )
    select
      (select count(*)::integer from candidate),
      (array_agg(xid))[count(*)::integer],
      (array_agg(entry))[count(*)::integer],
      array_agg(id) filter (where is_plain),
      string_agg(
        holdfast.job_text(id, at, case when is_large then 'null' else payload end, priority, failed, crashes, max_crashes, links, meta), ','
      ) filter (where is_plain),
      array_agg(id) filter (where is_plain and is_large),
      array_agg(entry) filter (where is_plain and is_large),
      array_agg(entered_at) filter (where is_plain and is_large),
      array_agg(id) filter (where is_plain and links ?| '{lane,budgets}'),
      array_agg(links) filter (where is_plain and links ?| '{lane,budgets}'),
      -- job_claim_others processes the other jobs. It needs other columns in addition to the job text.
      jsonb_agg(jsonb_build_object(
        'id', id, 'entry', entry, 'queue', f.queue, 'priority', priority, 'kind', kind, 'links', links, 'at', at,
        'text', case when at is not null then holdfast.job_text(id, at, payload, priority, failed, crashes, max_crashes, links, meta) end
      )) filter (where is_there and not is_plain)
    into count, last_xid, last_entry, ids, texts, large_ids, large_entries, large_times, placed_ids, placed_links, others
    from (
      select picked.*, at is not null and (links is null or not links ?| '{unique,startBy}') and is_there as is_plain
      from (
        select
          candidate.*,
          case when kind = kinds[1] then 1 else array_position(kinds, kind) end as at,
          pg_column_size(payload) > 2000 or pg_column_compression(payload) is not null as is_large,
          -- Uses a scalar subquery, because a hash join would read all removed entries.
          (select r.entry from holdfast.job_removed r where r.entry = candidate.entry) is null as is_there
        from candidate
        order by xid, entry
        limit most
      ) as picked
    ) as picked;
    if count > 0 then
      f.at_xid := last_xid;
      f.at_entry := last_entry;
    end if;
    -- The query reads one entry more than can be claimed. If it finds no such entry, the window has been read completely.
    f.is_read := count <= most and late_xid is null;
  end
  $$;
comment on function holdfast.job_read_window(holdfast.frontier, text[], integer) is
  'Reads entries of a window, up to the given number, and moves the frontier past them. count: the number of entries that were found, '
  'including an entry that was not read. placed_ids: the jobs that have a place in a lane or budget. others: the entries that need job_claim_others. The caller holds the lock on the claims of the '
  'queue.';

create or replace function holdfast.job_claim(
  session integer,
  token bigint,
  queues bigint[],
  kinds text[],
  max_count integer,
  announces boolean,
  is_thorough boolean
)
  returns table (state text, fence bigint, jobs text, is_drained boolean, large_id bigint, large_input json)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    current record;
    level_queues bigint[] := '{}';
    level_priorities smallint[] := '{}';
    next_priority smallint;
    f holdfast.frontier;
    got record;
    has_changed boolean;
    is_newest boolean;
    unread integer := max_count;
    ids bigint[] := '{}';
    large_ids bigint[] := '{}';
    large_entries bigint[] := '{}';
    large_times timestamptz[] := '{}';
    placed_ids bigint[] := '{}';
    placed_links jsonb[] := '{}';
    linked jsonb;
    places record;
    other record;
    paused bigint[];
  begin
    -- A snapshot that is older than the lock would show an old frontier.
    perform holdfast.require_read_committed();
    if pg_is_in_recovery() then
      raise exception 'cannot claim jobs on a standby' using errcode = '25006';
    end if;
    -- The commit is not flushed, because a crash that loses the claim also ends its epoch and thereby frees the jobs.
    perform set_config('synchronous_commit', 'off', true);
    -- Blocks job_take_over, which acquires the exclusive lock before it deletes the row in worker.
    perform pg_advisory_xact_lock_shared(holdfast.lock_class('claims of a session'), session);
    is_drained := false;
    for try in 1 .. 3 loop
      -- One statement reads what every claim needs first, because single jobs are frequent and each statement costs time.
      select
        settled.era,
        exists (select from holdfast.worker where worker.session = job_claim.session) as is_worker,
        exists (select from holdfast.job_skipped where job_skipped.queue = any(job_claim.queues) and job_skipped.kind = any(kinds)) as has_skipped
      into current
      from holdfast.settled_server as settled;
      exit when found;
      -- grace_is_over() begins a generation if necessary.
      exit when not holdfast.grace_is_over();
    end loop;
    state := case when current.era is null then 'in-grace' when current.is_worker then 'claimed' else 'gone' end;
    if state <> 'claimed' then
      return next;
      return;
    end if;
    if is_thorough or cardinality(queues) > 1 then
      select array_agg(level.queue order by level.priority desc, place), array_agg(level.priority order by level.priority desc, place)
      into level_queues, level_priorities
      from holdfast.job_levels_of(queues, is_thorough) as level;
    else
      -- Most workers serve one queue with few priorities. Then these small statements cost less than the large one.
      loop
        select frontier.priority
        into next_priority
        from holdfast.frontier
        where frontier.queue = queues[1]
          and frontier.priority < coalesce(next_priority, 32767)
        order by frontier.priority desc
        limit 1;
        exit when next_priority is null;
        level_queues := level_queues || queues[1];
        level_priorities := level_priorities || next_priority;
      end loop;
    end if;
    -- For one or two levels, reading their windows is cheaper than this check.
    if cardinality(level_queues) > 2 then
      select array_agg(known.queue order by place), array_agg(known.priority order by place)
      into level_queues, level_priorities
      from unnest(level_queues, level_priorities) with ordinality as known (queue, priority, place)
      where holdfast.job_level_is_unread(known.queue, known.priority, current.era);
    end if;
    -- Serializes a queue's claims. PostgreSQL releases the lock after this claim's commit has become visible.
    perform pg_advisory_xact_lock(holdfast.lock_class('job claims'), object)
    from (
      select distinct queue::bit(32)::integer as object
      from unnest(case when current.has_skipped then queues else level_queues end) as queue
      order by object
    ) as in_order;
    -- A pause waits for the same lock. This statement runs under the lock, so no claim takes a job after the pause.
    paused := array(select key from holdfast.queue where key = any(queues) and paused_at is not null);
    if current.has_skipped then
      select * into got from holdfast.job_claim_skipped(queues, paused, kinds, unread);
      ids := ids || got.ids;
      jobs := got.texts;
      linked := got.linked;
      unread := unread - coalesce(cardinality(got.ids), 0);
    end if;
    is_drained := unread > 0;
    for level in 1 .. coalesce(cardinality(level_queues), 0) loop
      continue when level_queues[level] = any(paused);
      is_drained := false;
      exit when unread <= 0;
      select *
      into f
      from holdfast.frontier
      where frontier.queue = level_queues[level]
        and frontier.priority = level_priorities[level]
      order by number desc
      limit 1;
      if f.number is null then
        f := row(level_queues[level], level_priorities[level], 0, 0, '1:1:', '1:1:', '0', 0, true)::holdfast.frontier;
      end if;
      has_changed := not f.is_read;
      is_newest := false;
      loop
        if f.is_read then
          f := holdfast.job_next_window(f, current.era);
          is_newest := f.era = current.era;
        end if;
        got := holdfast.job_read_window(f, kinds, unread);
        f := got.f;
        ids := ids || got.ids;
        large_ids := large_ids || got.large_ids;
        large_entries := large_entries || got.large_entries;
        large_times := large_times || got.large_times;
        placed_ids := placed_ids || got.placed_ids;
        placed_links := placed_links || got.placed_links;
        jobs := coalesce(jobs || ',' || got.texts, jobs, got.texts);
        unread := unread - coalesce(cardinality(got.ids), 0);
        if got.others is not null then
          select * into other from holdfast.job_claim_others(got.others, unread);
          ids := ids || other.ids;
          jobs := nullif(concat_ws(',', jobs, other.texts), '');
          linked := coalesce(linked || other.linked, linked, other.linked);
          unread := unread - coalesce(cardinality(other.ids), 0);
        end if;
        -- An empty window is recorded only if its era has ended. A claim that finds nothing writes nothing.
        has_changed := has_changed or got.count > 0 or not is_newest;
        exit when unread <= 0 or f.is_read and is_newest;
      end loop;
      is_drained := f.is_read and is_newest;
      if has_changed then
        insert into holdfast.frontier values (f.queue, f.priority, f.number + 1, f.era, f.base, f.upto, f.at_xid, f.at_entry, f.is_read);
        if f.number % 64 = 63 then
          delete from holdfast.frontier
          where frontier.queue = f.queue
            and frontier.priority = f.priority
            and frontier.number between f.number - 1000 and f.number;
        end if;
      end if;
    end loop;
    if ids = '{}' then
      jobs := null;
      is_drained := is_thorough;
      return next;
      return;
    end if;
    -- The fencing token is assigned under the lock, so that a later claim of one of these jobs has a larger token.
    fence := nextval('holdfast.fence');
    if linked is not null or placed_ids <> '{}' then
      select array_agg(placed.id) as ids, array_agg(p.key) as keys, array_agg(p.weight) as weights
      into places
      from (
        select * from unnest(placed_ids, placed_links) as plain (id, links)
        union all
        select (one->>'id')::bigint, one->'links' from jsonb_array_elements(linked) as one
      ) as placed
      cross join lateral holdfast.job_places(placed.links, 'all') as p;
      insert into holdfast.claim (fence, session, token, ids, linked, place_ids, place_keys, place_weights)
      values (
        fence, session, token, ids, nullif(jsonb_path_query_array(linked, '$[*] ? (exists(@.links.unique))'), '[]'), places.ids, places.keys,
        places.weights
      );
    else
      insert into holdfast.claim (fence, session, token, ids) values (fence, session, token, ids);
    end if;
    if announces then
      perform pg_notify(holdfast.notification_channel(), 'jobs-running ' || session);
    end if;
    return next;
    if large_ids <> '{}' then
      return query
      select null, null::bigint, null, null::boolean, job.id, job.payload
      from unnest(large_ids, large_entries, large_times) as l (id, entry, entered_at)
      -- The condition on entered_at limits the search to one partition for each job.
      join holdfast.job on job.id = l.id and job.entry = l.entry and job.entered_at = l.entered_at;
    end if;
  end
  $$;
comment on function holdfast.job_claim(integer, bigint, bigint[], text[], integer, boolean, boolean) is
  'Claims up to max_count jobs for an epoch, by priority, and then in the order of their transactions. is_thorough: also searches for '
  'priorities that have not been used before. The first row describes the claim. jobs: the jobs'' texts (see job_text), separated by '
  'commas. is_drained: no job that could be claimed is left. Each further row contains the input of one job, whose text contains null '
  'instead of the input, because a long text with many large inputs is slow to build and to read.';

-- Ends.

create or replace function holdfast.job_note_ends(ids bigint[], fences bigint[], is_done boolean, results json) returns bigint[]
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    noted bigint[];
  begin
    -- The caller has locked the claims. A statement whose response was lost may run twice, so this function skips ends that already exist.
    with owned as materialized (
      select claim.fence, unnest(claim.ids) as id from holdfast.claim where claim.fence = any(fences)
    ),
    earlier as materialized (
      select e.fence, unnest(e.ids) as id
      from holdfast.job_end e
      where e.bucket = any(array(select distinct holdfast.job_bucket(asked.id) from unnest(job_note_ends.ids) as asked (id)))
        and e.fence = any(fences)
    ),
    noted as (
      insert into holdfast.job_end (bucket, fence, session, claimed_at, ended_at, is_done, ids, results)
      select
        holdfast.job_bucket(asked.id), claim.fence, claim.session, claim.claimed_at,
        -- An end that did not finish the job must be older than the job's next entry, which this transaction may have made.
        case when job_note_ends.is_done then clock_timestamp() else now() end, job_note_ends.is_done, array_agg(asked.id order by asked.id),
        case when job_note_ends.results is not null then json_agg(asked.result order by asked.id) end
      from rows from (unnest(job_note_ends.ids), unnest(fences), json_array_elements(job_note_ends.results)) as asked (id, fence, result)
      join holdfast.claim on claim.fence = asked.fence
      -- "is true" and "is not true" make PostgreSQL hash the lists. Otherwise, it expects short lists, and compares each job with each other job.
      where ((asked.id, asked.fence) in (select owned.id, owned.fence from owned)) is true
        and ((asked.id, asked.fence) in (select earlier.id, earlier.fence from earlier)) is not true
      group by holdfast.job_bucket(asked.id), claim.fence, claim.session, claim.claimed_at
      returning job_end.ids
    )
    select coalesce(array_agg(id), '{}') into noted from noted, unnest(noted.ids) as id;
    return noted;
  end
  $$;
comment on function holdfast.job_note_ends(bigint[], bigint[], boolean, json) is
  'Records the ends of attempts whose claims the caller has locked. Returns the jobs whose ends had not been recorded before. results: see '
  'job_end, in the order of ids.';

create or replace function holdfast.job_delete_claims(fences bigint[]) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    -- The caller has recorded all jobs' outcomes. However, a failover may have lost an outcome. In this case, maintenance can find
    -- the job only through the claim.
    delete from holdfast.claim
    where fence = any(fences)
      and cardinality(claim.ids) = (
        select sum(cardinality(e.ids))
        from holdfast.job_end e
        where e.bucket = any(array(select distinct holdfast.job_bucket(id) from unnest(claim.ids) as id))
          and e.fence = claim.fence
      );
  end
  $$;
comment on function holdfast.job_delete_claims(bigint[]) is
  'Deletes claims whose jobs have all ended. If a claim still owns a job, its epoch has ended and maintenance takes the job over.';

create or replace function holdfast.job_done(
  ids bigint[], fences bigint[], results json, emptied bigint[], out recorded bigint[], out follow_ups bigint[], out urgent boolean
)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    owned record;
    ended bigint[];
    owner integer;
    returned_keys bigint[];
    returned_weights integer[];
    awaited jsonb;
  begin
    -- An older snapshot would not show that the attempt has ended, because such an end does not change the row of the claim.
    perform holdfast.require_read_committed();
    -- Fast path for a claim with one job. Most claims on a queue that is not busy contain one job.
    if cardinality(ids) = 1 and emptied = fences then
      with gone as (
        delete from holdfast.claim
        where claim.fence = fences[1]
          and claim.ids = job_done.ids
          and claim.linked is null
          and claim.place_ids is null
        returning *
      )
      insert into holdfast.job_end (bucket, fence, session, claimed_at, is_done, ids, results)
      select holdfast.job_bucket(gone.ids[1]), gone.fence, gone.session, gone.claimed_at, true, gone.ids, job_done.results
      from gone
      returning job_end.ids, job_end.session into ended, owner;
    end if;
    if ended is null then
      select max(session) as session, bool_or(linked is not null) as are_linked, bool_or(place_ids is not null) as are_placed
      into owned
      from (
        select claim.session, claim.linked, claim.place_ids from holdfast.claim where claim.fence = any(fences) order by claim.fence for update
      ) as locked;
      owner := owned.session;
      ended := holdfast.job_note_ends(ids, fences, true, results);
      if cardinality(ended) < cardinality(ids) then
        recorded := array(
          select asked.id
          from unnest(ids, fences) as asked (id, fence)
          where exists (
            select
            from holdfast.job_end e
            where e.bucket = holdfast.job_bucket(asked.id)
              and e.fence = asked.fence
              and e.is_done
              and asked.id = any(e.ids)
          )
        );
      end if;
      -- A claim also keeps jobs that have returned to the queue and may end now in another claim. Therefore, both parts of the following
      -- conditions are necessary.
      if owned.are_linked then
        perform holdfast.job_free_keys(jsonb_agg(one || '{"state": "done"}'))
        from holdfast.claim
        cross join lateral jsonb_array_elements(claim.linked) as one
        where claim.fence = any(fences)
          -- "is true" makes PostgreSQL hash the lists. Otherwise, it expects short lists, and compares each job with each other job.
          and (((one->>'id')::bigint, claim.fence) in (select asked.id, asked.fence from unnest(job_done.ids, fences) as asked (id, fence))) is true
          and ((one->>'id')::bigint in (select unnest(ended))) is true;
      end if;
      if owned.are_placed then
        select array_agg(key order by key), array_agg(weights order by key)
        into returned_keys, returned_weights
        from (
          select p.key, sum(p.weight)::integer as weights
          from holdfast.claim
          cross join lateral unnest(claim.place_ids, claim.place_keys, claim.place_weights) as p (id, key, weight)
          where claim.fence = any(fences)
            -- "is true": see above.
            and ((p.id, claim.fence) in (select asked.id, asked.fence from unnest(job_done.ids, fences) as asked (id, fence))) is true
            and (p.id in (select unnest(ended))) is true
          group by p.key
        ) as by_key;
      end if;
      if cardinality(emptied) > 0 then
        perform holdfast.job_delete_claims(emptied);
      end if;
    end if;
    if exists (select from holdfast.dependency) then
      select jsonb_agg(distinct jsonb_build_object('id', needs, 'state', 'done')) into awaited from holdfast.dependency where needs = any(ended);
    end if;
    if returned_keys is not null or awaited is not null then
      insert into holdfast.follow_up (session, keys, weights, ended)
      values (owner, returned_keys, returned_weights, awaited)
      returning array[number] into follow_ups;
      urgent := awaited is not null or exists (
        select
        from unnest(returned_keys) as returned (key)
        cross join lateral (
          select * from holdfast.lane where lane.key = returned.key order by version desc limit 1
        ) as l
        where l.scope = 'round'
          or l.active > l.max / 2
          or not holdfast.lane_is_empty(l.cursors)
      );
    end if;
  end
  $$;
comment on function holdfast.job_done(bigint[], bigint[], json, bigint[]) is
  'Records that jobs are done, and deletes claims that have no jobs left. An outcome is accepted only if the claim with this fencing token '
  'exists and contains the job. recorded is null if all outcomes were accepted. Otherwise it lists the jobs whose outcome is recorded, by '
  'this call or earlier. follow_ups are for job_run_follow_ups. urgent: another job may need the room that the jobs return. Otherwise no job is '
  'waiting for it, and at least half of it is free.';

create or replace function holdfast.job_failure_details(attempt integer, claimed_at timestamptz, session integer) returns jsonb
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$
    select jsonb_build_object(
      'attempt', attempt,
      'at', clock_timestamp(),
      'claimedAt', claimed_at,
      'instance', ran_by.id,
      'instanceName', instance_name.name
    )
    from (select min(instance) as id from holdfast.worker where worker.session = job_failure_details.session) as ran_by
    left join holdfast.instance_name using (id)
  $$;
comment on function holdfast.job_failure_details(integer, timestamptz, integer) is
  'Describes an attempt that is failing now: its number, times and instance.';

create or replace function holdfast.job_end(asked json, emptied bigint[], out recorded bigint[], out follow_ups bigint[])
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    crash constant text := 'The worker process ended or lost its database session while the job was running';
    linked jsonb;
    this_era integer;
    ended bigint[];
    fences bigint[];
  begin
    perform holdfast.require_read_committed();
    -- Locks the claims before it reads: a cancellation may be in progress, and a cancelled job must not return to the queue.
    perform from holdfast.claim
    where fence = any(array(select distinct fence from json_to_recordset(asked) as e (fence bigint)))
    order by fence
    for update;
    this_era := holdfast.job_era();
    with claimed as materialized (
      select claim.fence, unnest(claim.ids) as id
      from holdfast.claim
      where claim.fence = any(array(select distinct fence from json_to_recordset(asked) as a (fence bigint)))
    ),
    earlier as materialized (
      select job_end.fence, unnest(job_end.ids) as id
      from holdfast.job_end
      where job_end.bucket = any(array(select distinct holdfast.job_bucket(a.id) from json_to_recordset(asked) as a (id bigint)))
        and job_end.fence = any(array(select distinct fence from json_to_recordset(asked) as a (fence bigint)))
    ),
    owned as materialized (
      select distinct on (a.id, a.fence) a.*, claim.session, claim.claimed_at
      from json_to_recordset(asked) as a (id bigint, fence bigint, state text, error jsonb, delay_ms bigint, failed integer)
      join holdfast.claim on claim.fence = a.fence
      -- "is true" and "is not true" make PostgreSQL hash the lists. Otherwise, it expects short lists, and compares each job with each other job.
      where ((a.id, a.fence) in (select claimed.id, claimed.fence from claimed)) is true
        and ((a.id, a.fence) in (select earlier.id, earlier.fence from earlier)) is not true
    ),
    e as materialized (
      select
        e.id, e.fence, e.delay_ms, e.error, e.state as asked_state, coalesce(e.failed, 0) as failed_now,
        case
          when e.state <> 'crashed' then 0
          when j.crashes > 0 or j.max_crashes = 1 then coalesce(n.started, false)::integer
          else 1
        end as charge,
        e.session, e.claimed_at, j.queue, j.priority, j.kind, j.payload, coalesce(j.enqueued_at, j.entered_at) as enqueued_at,
        coalesce(j.failed, 0) as failed, coalesce(j.crashes, 0::smallint) as crashes, coalesce(j.max_crashes, 3::smallint) as max_crashes,
        n.cancelled, n.progress, (j.log || n.log)[greatest(1, cardinality(j.log || n.log) - 99):] as log, j.failures,
        -- The claim was in time, so the job has no deadline after its first attempt.
        nullif(j.links - 'startBy', '{}') as links, j.meta
      from owned e
      cross join lateral (
        select * from holdfast.job where job.id = e.id order by entry desc limit 1
      ) as j
      left join holdfast.job_note n on n.id = e.id and n.fence = e.fence
    ),
    decided as materialized (
      select
        e.*,
        case
          when cancelled is not null and asked_state <> 'discarded' then 'cancelled'
          when asked_state <> 'crashed' then asked_state
          when crashes + charge >= max_crashes then 'buried'
          else 'returned'
        end as state,
        case
          when failed_now + charge = 0 then failures
          when jsonb_array_length(failures) >= 20 then failures - 0
          else coalesce(failures, '[]')
        end || case
          when failed_now + charge = 0 then '[]'
          when charge > 0 then jsonb_build_array(
            jsonb_build_object('name', 'WorkerCrashedError', 'message', crash, 'code', 'WORKER_CRASHED')
            || holdfast.job_failure_details(failed + crashes + 1, claimed_at, session)
          )
          else jsonb_build_array(error || holdfast.job_failure_details(failed + crashes + 1, claimed_at, session))
        end as all_failures
      from e
    ),
    kept as (
      insert into holdfast.job_stopped
        (id, queue, priority, kind, payload, state, error, enqueued_at, claimed_at, session, fence, failed, crashes,
         max_crashes, progress, log, failures, links, meta)
      select id, queue, priority, kind, payload, state,
        case
          when state = 'cancelled' and asked_state <> 'cancelled'
          then jsonb_build_object('name', 'JobCancelledError', 'message', cancelled, 'code', 'JOB_CANCELLED')
          when asked_state = 'crashed'
          then jsonb_build_object(
            'name', 'WorkerCrashedError', 'message', format('%s (crash %s of %s)', crash, crashes + charge, max_crashes),
            'code', 'WORKER_CRASHED'
          )
          else error
        end,
        enqueued_at, claimed_at, session, fence, failed + failed_now, crashes + charge, max_crashes, progress, log, all_failures, links,
        meta
      from decided
      where state not in ('retried', 'returned')
    ),
    retried as (
      insert into holdfast.waiting
        (id, queue, priority, kind, payload, enqueued_at, run_at, failed, crashes, max_crashes, log, failures, links, meta)
      select id, queue, priority, kind, payload, enqueued_at,
        clock_timestamp() + make_interval(secs => delay_ms / 1000.0), failed + failed_now, crashes, max_crashes, log,
        all_failures, links, meta
      from decided
      where state = 'retried'
    ),
    returned as (
      insert into holdfast.job
        (queue, id, entry, era, priority, kind, payload, enqueued_at, failed, crashes, max_crashes, log, failures, links, meta)
      select queue, id, nextval('holdfast.job_number'), this_era, priority, kind, payload, enqueued_at, nullif(failed, 0),
        nullif(crashes + charge, 0), nullif(max_crashes, 3), log, all_failures, links, meta
      from (select * from decided where state = 'returned' order by id) as in_order
      returning queue
    ),
    woken as (
      select holdfast.job_wake(queue, count(*)) from returned group by queue
    )
    select
      array_agg(id), array_agg(fence),
      jsonb_agg(jsonb_build_object('id', id, 'queue', queue, 'kind', kind, 'session', session, 'state', state, 'links', links))
        filter (where state <> 'returned')
    into ended, fences, linked
    from decided
    -- This condition is always true. It forces PostgreSQL to execute the CTE.
    where (select count(*) from woken) >= 0;
    if ended is not null then
      perform holdfast.job_note_ends(ended, fences, false, null);
    end if;
    if linked is not null then
      follow_ups := holdfast.job_release_links(linked);
    end if;
    if cardinality(emptied) > 0 then
      perform holdfast.job_delete_claims(emptied);
    end if;
    recorded := coalesce(ended, '{}');
  end
  $$;
comment on function holdfast.job_end(json, bigint[]) is
  'Ends attempts that are not done: moves jobs to job_stopped (cancelled, discarded, buried), to waiting (retried), or to the tail of the '
  'queue (returned). crashed: the worker died, which returns or buries the job. Each outcome is checked as in job_done. A cancelled job is '
  'not retried or returned, but ends as cancelled. recorded lists the outcomes that were accepted. follow_ups are for job_run_follow_ups.';

create or replace function holdfast.job_retry(job_id bigint, from_start boolean) returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    stopped record;
    is_linked boolean;
  begin
    select queue, kind, links into stopped from holdfast.job_stopped where id = job_id order by ended_at desc limit 1 for update;
    if found then
      if stopped.links is not null and not holdfast.job_retake_key(job_id, stopped.queue, stopped.kind, stopped.links) then
        return false;
      end if;
      if from_start then
        delete from holdfast.job_step where job = job_id;
        delete from holdfast.job_event where job = job_id;
      end if;
      perform holdfast.job_run_again(array[job_id]);
      return true;
    end if;
    update holdfast.waiting
    set run_at = clock_timestamp()
    where id = job_id
    returning coalesce(links ?| '{lane,budgets,after}', false)
    into is_linked;
    if not found then
      return false;
    end if;
    if from_start then
      delete from holdfast.job_step where job = job_id;
      delete from holdfast.job_event where job = job_id;
    else
      update holdfast.job_step
      set ended_at = clock_timestamp()
      where job = job_id
        and kind = 'sleep'
        and ended_at is null;
    end if;
    if is_linked then
      -- The caller admits the job with job_run_follow_ups. If the caller dies, maintenance admits the job.
      perform holdfast.job_announce_waiting();
    else
      perform holdfast.job_make_ready(array[job_id]);
    end if;
    return true;
  end
  $$;
comment on function holdfast.job_retry(bigint, boolean) is
  'Retries a waiting, cancelled, discarded or buried job, and ends its sleep. Links can still delay the job. from_start: deletes the '
  'recorded steps and events first. Returns false if there is no such job, or if another job has its unique key.';

create or replace function holdfast.job_take_over(session integer, out ids bigint[], out moved integer)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    one record;
  begin
    ids := '{}';
    moved := 0;
    -- Returns, because one of this epoch's claims is still running. The next maintenance run takes the epoch over.
    if not pg_try_advisory_xact_lock(holdfast.lock_class('claims of a session'), session) then
      return;
    end if;
    for one in
      select * from holdfast.claim where claim.session = job_take_over.session order by claim.fence limit 100 for update
    loop
      ids := ids || (
        select recorded
        from holdfast.job_end(
          (select json_agg(json_build_object('id', id, 'fence', one.fence, 'state', 'crashed')) from unnest(one.ids) as id), '{}'
        )
      );
      delete from holdfast.claim where claim.fence = one.fence;
    end loop;
    select cardinality(job_take_over.ids) + t.moved into moved from holdfast.job_run_follow_ups('{}', '{}', job_take_over.session) as t;
    perform from holdfast.claim where claim.session = job_take_over.session limit 1;
    if found then
      return;
    end if;
    perform from holdfast.follow_up where follow_up.session = job_take_over.session limit 1;
    if not found then
      delete from holdfast.worker where worker.session = job_take_over.session;
      perform holdfast.note_lost_instances(array[job_take_over.session]);
    end if;
  end
  $$;
comment on function holdfast.job_take_over(integer) is
  'Returns a dead epoch''s jobs to their queues, up to 100 claims per call. Counts a crash for each job that may have run, '
  'and buries jobs with too many crashes.';

create or replace function holdfast.job_lock_unended(job_id bigint, locks_running boolean)
  returns table (
    id bigint, state text, queue bigint, priority smallint, kind text, payload json, result json, error json, enqueued_at timestamptz,
    run_at timestamptz, claimed_at timestamptz, ended_at timestamptz, session integer, fence bigint, failed integer, crashes smallint,
    max_crashes smallint, cancelled text, progress json, log json[], failures jsonb, links jsonb, meta json, entry bigint
  )
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    seen record;
  begin
    -- A snapshot that is older than the locks would show an old state.
    if current_setting('transaction_isolation') <> 'read committed' then
      raise exception 'Jobs can be changed only at the READ COMMITTED isolation level' using errcode = 'HF004';
    end if;
    for attempt in 1 .. 100 loop
      select * into seen from holdfast.job_find(array[job_id]);
      if not found or seen.state not in ('waiting', 'ready', 'running') or seen.state = 'running' and not locks_running then
        return;
      end if;
      if seen.state = 'waiting' then
        perform from holdfast.waiting where waiting.id = job_id for update;
      else
        -- Waits for a transaction that is replacing this job, because such a transaction has locked the job's key.
        if seen.links ? 'unique' then
          perform
          from holdfast.unique_job u
          where u.queue = seen.queue
            and u.kind = seen.kind
            and u.key = seen.links->'unique'->>'key'
            and u.id = job_id
          for update;
        end if;
        -- These locks block claims on the queue, and prevent the job's current claim from ending.
        perform pg_advisory_xact_lock(holdfast.lock_class('job claims'), seen.queue::bit(32)::integer);
        if seen.fence is not null then
          perform from holdfast.claim where claim.fence = seen.fence for update;
        end if;
      end if;
      -- The job may have changed before the locks were granted, so its state is read again.
      return query
      select *
      from holdfast.job_find(array[job_id]) as now
      where now.state = seen.state
        and (now.entry, now.fence) is not distinct from (seen.entry, seen.fence);
      if found then
        return;
      end if;
    end loop;
    raise exception 'The state of job % changed during each attempt to change the job', job_id using errcode = '40001';
  end
  $$;
comment on function holdfast.job_lock_unended(bigint, boolean) is
  'Locks a job that has not ended, so that its state does not change until the transaction ends. Returns the job like job_find, or nothing if '
  'it has ended or does not exist. locks_running: also locks a running job. Otherwise returns nothing for it.';

create or replace function holdfast.job_stop(job_id bigint, new_state text, reason json) returns bigint[]
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    stopped holdfast.job_stopped;
    holds text;
    left_list bigint;
    follow_ups bigint[];
  begin
    insert into holdfast.job_stopped
      (id, queue, priority, kind, payload, state, error, enqueued_at, failed, crashes, max_crashes, log, failures, links, meta)
    select
      f.id, f.queue, f.priority, f.kind, f.payload, new_state, reason, f.enqueued_at, f.failed, f.crashes, f.max_crashes, f.log, f.failures,
      f.links, f.meta
    from holdfast.job_find(array[job_id]) as f
    returning * into stopped;
    delete from holdfast.waiting
    where waiting.id = job_id
    returning case when stage = 'budget' and links ? 'lane' then 'lane' else 'none' end, case when stage = 'budget' then lane end
    into holds, left_list;
    if not found then
      perform holdfast.job_remove(job_id);
      holds := 'all';
    end if;
    delete from holdfast.dependency where job = job_id;
    if left_list is not null then
      follow_ups := array[holdfast.job_look_at_list(left_list)];
    end if;
    return nullif(coalesce(follow_ups, '{}') || coalesce(holdfast.job_release_links(jsonb_build_array(jsonb_build_object(
      'id', job_id, 'queue', stopped.queue, 'kind', stopped.kind, 'state', new_state, 'links', stopped.links, 'holds', holds
    ))), '{}'), '{}');
  end
  $$;
comment on function holdfast.job_stop(bigint, text, json) is
  'Ends a waiting or ready job that job_lock_unended has locked: moves it to job_stopped with this state and error. Returns the numbers of '
  'its follow-ups.';

create or replace function holdfast.job_cancel(job_id bigint, reason text, out answer text, out follow_ups bigint[])
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    seen record;
  begin
    select state, session, fence into seen from holdfast.job_lock_unended(job_id, true);
    if not found then
      return;
    end if;
    if seen.state = 'running' then
      insert into holdfast.job_note as n (id, fence, cancelled) values (job_id, seen.fence, reason)
      on conflict on constraint job_note_pkey do update
      set cancelled = excluded.cancelled;
      perform pg_notify(holdfast.notification_channel(), 'jobs-cancel-requested ' || seen.session);
      answer := 'requested';
      return;
    end if;
    follow_ups := holdfast.job_stop(
      job_id, 'cancelled', json_build_object('name', 'JobCancelledError', 'message', reason, 'code', 'JOB_CANCELLED')
    );
    answer := 'cancelled';
  end
  $$;
comment on function holdfast.job_cancel(bigint, text) is
  'Ends a waiting or ready job (cancelled), or requests that a running job stops (requested). Returns null if the job has ended or does not '
  'exist. follow_ups are for job_run_follow_ups.';

create or replace function holdfast.job_update(
  job_id bigint, expected_kind text, input json, new_meta json, new_priority smallint, delay_ms bigint, new_run_at timestamptz,
  start_by_ms bigint, new_start_by timestamptz
) returns text
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    seen record;
    due_at constant timestamptz := coalesce(clock_timestamp() + make_interval(secs => delay_ms / 1000.0), new_run_at);
    deadline constant timestamptz := coalesce(clock_timestamp() + make_interval(secs => start_by_ms / 1000.0), new_start_by);
  begin
    select queue, state, priority, kind, meta, failed, crashes, links into seen from holdfast.job_lock_unended(job_id, false);
    if not found then
      return null;
    end if;
    if seen.kind <> expected_kind then
      return seen.kind;
    end if;
    if deadline is not null and (
      seen.failed + seen.crashes > 0
      or exists (select from holdfast.job_step s where s.job = job_id)
    ) then
      return null;
    end if;
    perform holdfast.job_replace(
      job_id, input, case when new_meta is null then seen.meta else nullif(new_meta::text, '{}')::json end, coalesce(new_priority, seen.priority), due_at, deadline
    );
    perform holdfast.job_wake(seen.queue, 1);
    perform holdfast.job_announce_waiting();
    return seen.kind;
  end
  $$;
comment on function holdfast.job_update(bigint, text, json, json, smallint, bigint, timestamptz, bigint, timestamptz) is
  'Changes a waiting or ready job. A null argument leaves the value unchanged. Waits for a claim that is running on the job''s queue, and '
  'blocks other claims. Returns the job''s kind. If the kind differs from expected_kind, changes nothing. Returns null if the job is '
  'running, has ended or does not exist, and for a deadline also if the job has begun.';

create or replace function holdfast.job_run_again(ids bigint[]) returns integer
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    moved bigint[];
    is_any_linked boolean;
  begin
    with gone as (
      delete from holdfast.job_stopped where id = any(ids) returning *
    ),
    latest as (
      select distinct on (id) * from gone order by id, ended_at desc
    ),
    waits as (
      insert into holdfast.waiting (id, queue, priority, kind, payload, enqueued_at, run_at, max_crashes, log, failures, links, meta)
      select
        id, queue, priority, kind, payload, enqueued_at, clock_timestamp(), max_crashes, log, failures, nullif(links - 'startBy', '{}'), meta
      from latest
      returning id, coalesce(links ?| '{lane,budgets,after}', false) as is_linked
    )
    select array_agg(id order by id) filter (where not is_linked), bool_or(is_linked)
    into moved, is_any_linked
    from waits;
    if is_any_linked then
      perform holdfast.job_announce_waiting();
    end if;
    if moved is null then
      return 0;
    end if;
    return holdfast.job_make_ready(moved);
  end
  $$;
comment on function holdfast.job_run_again(bigint[]) is
  'Retries stopped jobs that the caller has locked, without their deadlines. Links can still delay the jobs. Returns the number of jobs '
  'that are ready now.';

-- Maintenance.

create or replace function holdfast.job_next_due() returns integer
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    return (
      -- The result is at most one day, because milliseconds overflow a 32-bit integer after 24 days.
      select greatest(0, ceil(extract(epoch from min(at) - clock_timestamp()) * 1000))::integer
      from (
        (
          select run_at
          from holdfast.waiting
          where stage = 'time'
            and run_at < (select clock_timestamp() + interval '1 day')
          order by run_at
          limit 1
        )
        union all
        (select due_at from holdfast.lane where due_at < (select clock_timestamp() + interval '1 day') order by due_at limit 1)
        union all
        (
          select start_by
          from holdfast.job_deadline
          where start_by < (select clock_timestamp() + interval '1 day')
          order by start_by
          limit 1
        )
        union all
        (select expires_at from holdfast.lane_reservation order by expires_at limit 1)
      ) as next (at)
      having count(*) > 0
    );
  end
  $$;
comment on function holdfast.job_next_due() is
  'Returns the time in ms until the next job or lane is due, a reservation expires, or the next deadline passes. Null if this is not within a '
  'day.';

create or replace function holdfast.job_maintain(max_count integer, out due_ms integer, out moved integer, out taken_over bigint[])
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    -- Only these links can delay a job.
    delaying constant text[] := '{lane,budgets,after}';
    dead integer;
    free bigint[];
    linked bigint[];
  begin
    -- Returns, because another instance is running maintenance.
    if not pg_try_advisory_xact_lock(holdfast.lock_class('job maintenance'), 0) then
      return;
    end if;
    moved := 0;
    for dead in
      select distinct worker.session from holdfast.worker where not holdfast.is_present(worker.session)
    loop
      select job_maintain.moved + t.moved, job_maintain.taken_over || t.ids into moved, taken_over from holdfast.job_take_over(dead) as t;
    end loop;
    -- Takes the follow-ups' lock before the jobs' locks. Otherwise an earlier pass would skip a locked job, and admit a later job of its lane.
    if exists (
      select
      from (
        select links from holdfast.waiting where stage = 'time' and run_at <= (select clock_timestamp()) order by run_at limit max_count
      ) as due
      where links ?| delaying
    ) then
      perform pg_advisory_xact_lock(holdfast.lock_class('job follow-ups'), 0);
    end if;
    with due as materialized (
      select id, coalesce(links ?| delaying, false) as is_linked
      from holdfast.waiting
      where stage = 'time'
        and run_at <= (select clock_timestamp())
      order by run_at
      limit max_count
      for update skip locked
    )
    select array_agg(id) filter (where not is_linked), array_agg(id) filter (where is_linked)
    into free, linked
    from due;
    if free is not null then
      moved := moved + holdfast.job_make_ready(free);
    end if;
    if linked is not null
      or exists (select from holdfast.lane where due_at <= (select clock_timestamp()))
      or exists (select from holdfast.follow_up where session = 0)
      or exists (select from holdfast.lane_reservation where expires_at <= (select clock_timestamp()))
    then
      select job_maintain.moved + t.moved into moved from holdfast.job_run_follow_ups('{}', coalesce(linked, '{}'), 0) as t;
    end if;
    moved := moved + holdfast.job_sweep_keys(max_count);
    due_ms := holdfast.job_next_due();
  end
  $$;
comment on function holdfast.job_maintain(integer) is
  'Runs maintenance, one session at a time: takes over dead epochs and moves up to max_count due jobs. '
  'due_ms: time until the next job is due. moved: number of moved jobs, or null if another session runs maintenance.';

create or replace function holdfast.job_look(
  epoch_number integer, workers json, out ready json, out due_ms integer, out works_from integer
)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  -- This function is part of the heartbeat, which must not wait for a table lock.
  set lock_timeout = '200ms'
  as $$
  declare
    current_era constant integer := (select era from holdfast.noticed_server);
    paused constant bigint[] := array(select key from holdfast.queue where paused_at is not null);
    is_registered constant boolean := exists (select from holdfast.worker where session = epoch_number);
    asked record;
    numbers integer[] := '{}';
  begin
    for asked in
      select
        w.number,
        w.kinds,
        array(select queue from unnest(w.queues) with ordinality as q (queue, place) where queue <> all(paused) order by place) as queues
      from json_to_recordset(workers) as w (number integer, queues bigint[], kinds text[])
    loop
      -- If the epoch or the generation has ended, the claim reports the reason.
      if current_era is null
        or not is_registered
        or exists (select from holdfast.job_skipped where job_skipped.queue = any(asked.queues) and job_skipped.kind = any(asked.kinds))
        or exists (
          select
          from holdfast.job_levels_of(asked.queues, true) as level
          where holdfast.job_level_is_unread(level.queue, level.priority, current_era)
        )
      then
        numbers := numbers || asked.number;
      end if;
    end loop;
    ready := to_json(numbers);
    due_ms := case
      when exists (select from holdfast.follow_up where session = 0)
        or exists (select from holdfast.unique_job where expires_at <= (select clock_timestamp()))
        -- Each instance checks only the next worker, so that the cost of a look does not grow with the number of instances.
        or exists (
          select
          from (
            (select session from holdfast.worker where session > epoch_number order by session limit 1)
            union all
            (select session from holdfast.worker where session <> epoch_number order by session limit 1)
            limit 1
          ) as next_worker
          where not holdfast.is_present(session)
        )
      then 0
      else holdfast.job_next_due()
    end;
    works_from := (select max(migration.works_from) from holdfast.migration);
  end
  $$;
comment on function holdfast.job_look(integer, json) is
  'Returns whether there is work for an idle instance. Changes nothing. ready: the numbers of the given workers that may find a job. due_ms: time '
  'until maintenance has work, or null if none is due within a day.';

create or replace function holdfast.job_re_enter(before timestamptz) returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    most constant integer := 10000;
    this_era constant integer := holdfast.job_era();
  begin
    perform pg_advisory_xact_lock(holdfast.lock_class('job claims'), object)
    from (
      select distinct queue::bit(32)::integer as object from holdfast.job_levels() order by object
    ) as in_order;
    if exists (
      select
      from (select unnest(ids) as id from holdfast.claim) as claimed
      join holdfast.job j on j.id = claimed.id and j.entered_at < before
    ) then
      return false;
    end if;
    if (select count(*) from (select from holdfast.job_ready where entered_at < before limit most + 1) as ready) > most then
      return false;
    end if;
    -- A transaction that is replacing one of these jobs has locked its key.
    perform
    from (
      select queue, kind, links->'unique'->>'key' as key, id from holdfast.job_ready where entered_at < before and links ? 'unique'
    ) as keyed
    join holdfast.unique_job u using (queue, kind, key, id)
    order by u.queue, u.kind collate "C", u.key collate "C"
    for update of u;
    with old as materialized (
      select * from holdfast.job_ready where entered_at < before
    ),
    gone as (
      delete from holdfast.job_skipped using old where job_skipped.entry = old.entry
    ),
    -- The old entries' partition is dropped here, but not in a cluster to which logical replication copies the tables.
    removed as (
      insert into holdfast.job_removed (entry, queue) select entry, queue from old
    )
    insert into holdfast.job
      (queue, id, entry, era, priority, kind, payload, enqueued_at, failed, crashes, max_crashes, log, failures, links, meta)
    select queue, id, nextval('holdfast.job_number'), this_era, priority, kind, payload, coalesce(enqueued_at, entered_at), failed,
      crashes, max_crashes, log, failures, links, meta
    from (select * from old order by xid, entry) as in_order;
    return true;
  end
  $$;
comment on function holdfast.job_re_enter(timestamptz) is
  'Creates another entry for each ready job that was entered before the given time, so that the old entries can be dropped in this '
  'transaction. Returns false if they must be kept, because jobs are running or more than 10,000 are ready.';

create or replace function holdfast.job_unarchived(retain integer, before timestamptz, after_id bigint, max_count integer)
  returns table (id bigint, keep_until timestamptz)
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    return query
    with old as materialized (
      (
        select job.id
        from holdfast.job
        join holdfast.job_kind k on k.queue = job.queue and k.kind = job.kind and k.keep_days > retain
        where job.entered_at < before
          and job.id > after_id
          and (select true from holdfast.job_archive a where a.id = job.id) is null
        order by job.id
        limit max_count
      )
      union
      (
        select s.id
        from holdfast.job_stopped s
        join holdfast.job_kind k on k.queue = s.queue and k.kind = s.kind and k.keep_days > retain
        where s.ended_at < before
          and s.id > after_id
        order by s.id
        limit max_count
      )
    )
    select scanned.id, kept.until
    from (select old.id from old order by old.id limit max_count) as scanned
    left join lateral (
      select f.ended_at + make_interval(days => k.keep_days) as until
      from holdfast.job_find(array[scanned.id]) as f
      join holdfast.job_kind k on k.queue = f.queue and k.kind = f.kind
      -- The other ended jobs are in job_stopped, whose partition is newer.
      where (f.state = 'done' or f.ended_at < before)
        and f.ended_at + make_interval(days => k.keep_days) > clock_timestamp()
    ) as kept on true;
  end
  $$;
comment on function holdfast.job_unarchived(integer, timestamptz, bigint, integer) is
  'Returns up to max_count jobs with ids above after_id, in the order of their ids. Returns only jobs whose rows are older than before, '
  'whose kind is kept for longer than retain days, and that are not in job_archive yet. keep_until is null if the job has not ended or need '
  'not be kept.';

create or replace function holdfast.job_has_unarchived(retain integer, before timestamptz) returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    last_id bigint := 0;
    has_found boolean;
  begin
    if not exists (select from holdfast.job_kind where keep_days > retain) then
      return false;
    end if;
    loop
      select max(u.id), bool_or(u.keep_until is not null)
      into last_id, has_found
      from holdfast.job_unarchived(retain, before, last_id, 1000) as u;
      if last_id is null or has_found then
        return coalesce(has_found, false);
      end if;
    end loop;
  end
  $$;
comment on function holdfast.job_has_unarchived(integer, timestamptz) is
  'Returns true if partitions with rows older than before must be kept, because job_archive_ended has to move jobs first.';

create or replace function holdfast.job_archive_ended(retain integer, after_id bigint, max_count integer) returns bigint
  language plpgsql
  set search_path = pg_catalog, pg_temp
  set timezone = 'UTC'
  as $$
  declare
    before constant timestamptz := ((clock_timestamp() at time zone 'UTC')::date - retain)::timestamptz;
    last_id bigint;
  begin
    if not exists (select from holdfast.job_kind where keep_days > retain) then
      return null;
    end if;
    -- One instance at a time moves jobs, so that no job is moved twice.
    if not pg_try_advisory_xact_lock(holdfast.lock_class('job history'), 0) then
      return null;
    end if;
    with scanned as materialized (
      select u.id, u.keep_until from holdfast.job_unarchived(retain, before, after_id, max_count) as u
    ),
    chosen as materialized (
      select scanned.id, scanned.keep_until from scanned where scanned.keep_until is not null
    ),
    -- A stopped job is removed from job_stopped, where retry would find it. Skips a job that an open transaction retries.
    locked as materialized (
      select s.id from holdfast.job_stopped s where s.id in (select id from chosen) for update skip locked
    ),
    archived as (
      insert into holdfast.job_archive
        (id, queue, priority, kind, payload, state, result, error, enqueued_at, claimed_at, ended_at, session, fence, failed, crashes,
         max_crashes, progress, log, failures, links, meta, keep_until)
      select f.id, f.queue, f.priority, f.kind, f.payload, f.state, f.result, f.error, f.enqueued_at, f.claimed_at, f.ended_at, f.session,
        f.fence, f.failed, f.crashes, f.max_crashes, f.progress, f.log, f.failures, f.links, f.meta, chosen.keep_until
      from holdfast.job_find(array(select id from chosen)) as f
      join chosen using (id)
      where f.state = 'done'
        or f.id in (select locked.id from locked)
      on conflict on constraint job_archive_pkey do nothing
      returning job_archive.id
    ),
    gone as (
      delete from holdfast.job_stopped where id in (select archived.id from archived)
    )
    select max(scanned.id) into last_id from scanned;
    return last_id;
  end
  $$;
comment on function holdfast.job_archive_ended(integer, bigint, integer) is
  'Moves ended jobs, whose kind is kept for longer than retain days, to job_archive before their partitions are dropped. Reads up to '
  'max_count jobs with ids above after_id. Returns the id of the last job that was read, or null if there are no more jobs.';

create or replace function holdfast.job_has_entry(before timestamptz) returns boolean
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select exists (select from holdfast.job where entered_at < before)
  $$;
comment on function holdfast.job_has_entry(timestamptz) is
  'Returns whether job still has entries that are older than this. Then the ends and the removals of this age must be kept, because without them '
  'these jobs would be ready again.';

create or replace function holdfast.job_roll_partitions(retain integer) returns void
  language plpgsql
  -- Runs as the schema's owner, because workers have no right to create tables.
  security definer
  set search_path = pg_catalog, pg_temp
  set timezone = 'UTC'
  as $$
  declare
    -- A long query on the history must not prevent outcomes from being recorded.
    patience text := set_config('lock_timeout', '200ms', true);
    today constant date := (clock_timestamp() at time zone 'UTC')::date;
    schema constant text := holdfast.notification_channel();
    kept record;
    past record;
    day date;
    partition text;
    may_drop boolean;
    needed_ids bigint[];
  begin
    if not pg_try_advisory_xact_lock(holdfast.lock_class('job history'), 0) then
      return;
    end if;
    for kept in
      -- Each claim searches all partitions of job, so these partitions cover many days.
      select *
      from (values ('job', (retain + 1) / 2), ('job_end', (retain + 1) / 2), ('job_stopped', 1)) as k (parent, days)
    loop
      day := greatest(today, (
        select max(substring(pg_get_expr(relpartbound, pg_class.oid) from 'TO \(''([^'']+)''\)')::timestamptz)::date
        from pg_class
        join pg_inherits on inhrelid = pg_class.oid
        where inhparent = format('%I.%I', schema, kept.parent)::regclass
      ));
      while day <= today + case when kept.days > 1 then 1 else 3 end loop
        partition := kept.parent || '_' || to_char(day, 'YYYYMMDD');
        begin
          execute format(
            'create table %1$I.%2$I (like %1$I.%3$I including defaults including constraints)', schema, partition, kept.parent
          );
          execute format(
            'comment on table %I.%I is %L', schema, partition,
            format('Rows of %s from %s to %s (UTC).', kept.parent, day, day + kept.days - 1)
          );
          execute format(
            'alter table %1$I.%4$I attach partition %1$I.%2$I for values from (%3$L) to (%5$L)',
            schema, partition, day::timestamptz, kept.parent, (day + kept.days)::timestamptz
          );
          if kept.parent = 'job_stopped' then
            execute format(
              'alter table %1$I.%2$I replica identity using index %2$s_id_ended_at_idx', schema, partition
            );
          end if;
          day := day + kept.days;
        exception
          -- check_violation: rows for that day are already in the default partition. lock_not_available: a long query is running.
          when check_violation or lock_not_available then
            day := day + 1;
        end;
      end loop;
      for past in
        select relname, upper.bound
        from pg_class
        join pg_inherits on inhrelid = pg_class.oid
        cross join lateral (
          select substring(pg_get_expr(relpartbound, pg_class.oid) from 'TO \(''([^'']+)''\)')::timestamptz as bound
        ) as upper
        where inhparent = format('%I.%I', schema, kept.parent)::regclass
          and upper.bound <= (today - retain)::timestamptz
        order by upper.bound
      loop
        begin
          may_drop := not holdfast.job_has_unarchived(retain, past.bound);
          if kept.parent = 'job' and may_drop then
            may_drop := holdfast.job_re_enter(past.bound);
          elsif may_drop then
            may_drop := not holdfast.job_has_entry(past.bound);
          end if;
          if may_drop then
            execute format('drop table %I.%I', schema, past.relname);
          end if;
        exception
          when lock_not_available then null;
        end;
      end loop;
    end loop;
    for kept in
      select * from (values ('job', 'entered_at'), ('job_end', 'ended_at'), ('job_stopped', 'ended_at')) as k (parent, at)
    loop
      begin
        execute format('select max(%I) < $1 from %I.%I', kept.at, schema, kept.parent || '_default')
        into may_drop
        using (today - retain)::timestamptz;
        may_drop := may_drop and not holdfast.job_has_unarchived(retain, (today - retain)::timestamptz);
        -- job_re_enter creates second entries, so it must only run if the first ones are dropped. "null and f()" evaluates f().
        if may_drop and kept.parent = 'job' then
          may_drop := holdfast.job_re_enter((today - retain)::timestamptz);
        elsif may_drop then
          may_drop := not holdfast.job_has_entry((today - retain)::timestamptz);
        end if;
        if may_drop then
          -- Uses truncate instead of delete, because a publication rejects deletes from a table without a replica identity. The table is
          -- locked first, because "disable trigger" takes a weaker lock than truncate.
          execute format(
            'lock table %1$I.%2$I; alter table %1$I.%2$I disable trigger user; truncate %1$I.%2$I; alter table %1$I.%2$I enable trigger user',
            schema, kept.parent || '_default'
          );
        end if;
      exception
        when lock_not_available then null;
      end;
    end loop;
    begin
      perform holdfast.guard_tables();
    exception
      when lock_not_available then null;
    end;
    delete from holdfast.job_note where noted_at < (today - retain)::timestamptz
      and not exists (select from holdfast.claim where claim.fence = job_note.fence);
    delete from holdfast.job_archive where keep_until < clock_timestamp();
    delete from holdfast.job_kind where registered_at < (today - greatest(retain, keep_days))::timestamptz
      and not exists (select from holdfast.worker where job_kind.queue = any(worker.queues) and job_kind.kind = any(worker.kinds));
    -- Steps are deleted after the job itself, because a job that is retried keeps its steps. Uses scalar subqueries, because PostgreSQL could
    -- run an "exists" as a hash join that reads all jobs.
    delete from holdfast.job_step s
    where coalesce(s.ended_at, s.started_at) < (today - retain)::timestamptz
      and (select true from holdfast.job where job.id = s.job limit 1) is null
      and (select true from holdfast.waiting where waiting.id = s.job limit 1) is null
      and (select true from holdfast.job_stopped where job_stopped.id = s.job limit 1) is null
      and (select true from holdfast.job_archive where job_archive.id = s.job) is null;
    delete from holdfast.job_event e
    where e.sent_at < (today - retain)::timestamptz
      and (select true from holdfast.job where job.id = e.job limit 1) is null
      and (select true from holdfast.waiting where waiting.id = e.job limit 1) is null
      and (select true from holdfast.job_stopped where job_stopped.id = e.job limit 1) is null
      and (select true from holdfast.job_archive where job_archive.id = e.job) is null;
    -- Dependents that are waiting for a retry of a failed job can start if the job can no longer be retried.
    -- The oldest jobs leave first.
    needed_ids := array(select distinct needs from holdfast.dependency order by needs limit 10000);
    insert into holdfast.follow_up (session, ended)
    select 0, jsonb_agg(jsonb_build_object('id', needed.id, 'state', 'done'))
    from unnest(needed_ids) as needed (id)
    left join holdfast.job_find(needed_ids) as f using (id)
    where f.id is null
      or exists (select from holdfast.job_archive a where a.id = needed.id)
    having count(*) > 0;
    if not holdfast.job_has_entry((today - retain)::timestamptz) then
      delete from holdfast.job_removed where removed_at < (today - retain)::timestamptz;
    end if;
  end
  $$;
comment on function holdfast.job_roll_partitions(integer) is
  'Creates partitions for the next days, and drops partitions that contain only jobs that ended more than retain days ago.';

-- The function runs with the owner's rights and drops data that is older than a given age, so read-only roles must not be able to call it.
revoke execute on function holdfast.job_roll_partitions(integer) from public;

-- Deadlines.

create or replace function holdfast.job_enqueue_with_deadlines(
  heads json, inputs json, is_alone boolean, patience text, metas json, out ids bigint[], out are_new boolean[]
)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    resolved json;
  begin
    select json_agg(
      case
        when deadline.at is null then head
        else (
          head::jsonb - '{start_by,start_by_ms}'::text[]
          || jsonb_build_object('links', coalesce(nullif(head::jsonb->'links', 'null'), '{}') || jsonb_build_object('startBy', deadline.at))
        )::json
      end
      order by place
    )
    into resolved
    from json_array_elements(heads) with ordinality as h (head, place)
    cross join lateral (
      select coalesce(
        clock_timestamp() + make_interval(secs => (head->>'start_by_ms')::bigint / 1000.0), (head->>'start_by')::timestamptz
      ) as at
    ) as deadline;
    select e.ids, e.are_new into ids, are_new from holdfast.job_enqueue(resolved, inputs, is_alone, patience, metas) as e;
    insert into holdfast.job_deadline (id, start_by)
    select job_enqueue_with_deadlines.ids[input], (head->'links'->>'startBy')::timestamptz
    from json_array_elements(resolved) with ordinality as h (head, place)
    -- A head of a unique job has exactly one input.
    cross join lateral generate_series(
      coalesce((head->>'after_input')::bigint + 1, place), coalesce((head->>'last_input')::bigint, place)
    ) as input
    where head->'links'->>'startBy' is not null
      and coalesce(job_enqueue_with_deadlines.are_new[input], true);
    perform holdfast.job_announce_waiting();
  end
  $$;
comment on function holdfast.job_enqueue_with_deadlines(json, json, boolean, text, json) is
  'Enqueues jobs, some of which have a deadline. See job_enqueue.';

create or replace function holdfast.job_expire(max_count integer)
  returns table (id bigint, kind text, queue bigint, start_by timestamptz)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  -- A claim or a long transaction that has locked one of the jobs must not delay the other jobs.
  set lock_timeout = '50ms'
  as $$
  declare
    due record;
    seen record;
  begin
    -- Returns, because another instance is running maintenance.
    if not pg_try_advisory_xact_lock(holdfast.lock_class('job maintenance'), 0) then
      return;
    end if;
    for due in
      select d.id, d.start_by
      from holdfast.job_deadline d
      where d.start_by <= (select clock_timestamp())
      order by d.start_by
      limit max_count
    loop
      begin
        select f.id, f.kind, f.queue, f.links into seen from holdfast.job_lock_unended(due.id, false) as f;
        -- Keeps the row of a job that has received a later deadline in the meantime.
        delete from holdfast.job_deadline d where d.id = due.id and d.start_by <= clock_timestamp();
        if holdfast.job_is_late(seen.links) then
          perform holdfast.job_stop(due.id, 'expired', json_build_object(
            'name', 'JobExpiredError', 'message', format('No worker had a free slot before %s', seen.links->>'startBy'),
            'code', 'JOB_EXPIRED'
          ));
          id := seen.id;
          kind := seen.kind;
          queue := seen.queue;
          start_by := due.start_by;
          return next;
        end if;
      exception
        -- The next run tries again. A transaction that has locked many jobs must not delay maintenance by a wait for each of them.
        when lock_not_available then
          perform set_config('lock_timeout', '1ms', true);
      end;
    end loop;
  end
  $$;
comment on function holdfast.job_expire(integer) is
  'Ends up to max_count jobs that no worker has claimed before their deadline, and returns them. Their follow-ups have no owner.';

-- Lanes, budgets, groups and dependencies. Only one transaction at a time changes them, and it never waits for another transaction (see job_run_follow_ups).
-- Therefore the transaction locks only the rows that it moves.

-- PostgreSQL inlines this function only without a search_path setting. Therefore each operator is qualified with its schema.
create or replace function holdfast.job_blocks_dependent(state text, if_failed text) returns boolean
  language sql immutable
  as $$
    select state operator(pg_catalog.=) any(array['ready', 'running', 'waiting'])
      or state operator(pg_catalog.=) any(array['cancelled', 'expired', 'buried']) and if_failed operator(pg_catalog.=) 'wait'
  $$;
comment on function holdfast.job_blocks_dependent(text, text) is
  'Returns whether a job in the given state blocks a dependent with the given ifFailed. A finished job blocks only if it failed and the '
  'dependent waits until it is retried. Otherwise the dependent is being released or cancelled.';

create or replace function holdfast.job_unmet_dependencies(jobs bigint[], max_count integer) returns table (job bigint, needs bigint, state text)
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select waiting.id, needed.needs, needed.state
    from unnest(jobs) as asked (id)
    join holdfast.waiting on waiting.id = asked.id and waiting.stage = 'jobs'
    cross join lateral (
      select d.needs, found.state
      -- Sorts the ids before it reads the states, because there may be thousands of jobs.
      from (select dependency.needs from holdfast.dependency where dependency.job = waiting.id order by needs offset 0) as d
      cross join lateral (
        select f.state from holdfast.job_find(array[d.needs]) as f
      ) as found
      where holdfast.job_blocks_dependent(found.state, waiting.links->>'ifFailed')
      limit max_count
    ) as needed
  $$;
comment on function holdfast.job_unmet_dependencies(bigint[], integer) is
  'Returns the jobs that block these jobs, with their states, up to max_count per job.';

create or replace function holdfast.job_resolve_links(links jsonb, queue bigint, kind text, delay_ms bigint, run_at timestamptz) returns jsonb
  language sql
  as $$
    select case
        when links ? 'lane'
        then jsonb_set(links, '{lane,key}', to_jsonb(holdfast.lock_key(queue::text, 'lane/' || (links->'lane'->>'name'))))
        else links
      end
      || case
        when links ? 'group'
        then jsonb_build_object('budgets', coalesce(links->'budgets', '[]') || jsonb_build_object(
          'key', holdfast.lock_key(queue::text, 'round/' || kind), 'name', kind, 'scope', 'round', 'max', 10, 'weight', 1
        ))
        else '{}'
      end
      || case
        when links ? 'after' and coalesce(delay_ms, 0) > 0
        then jsonb_build_object('runAt', clock_timestamp() + make_interval(secs => delay_ms / 1000.0))
        when links ? 'after' and run_at is not null
        then jsonb_build_object('runAt', run_at)
        else '{}'
      end
  $$;
comment on function holdfast.job_resolve_links(jsonb, bigint, text, bigint, timestamptz) is
  'Completes links for storage: adds the key of the lane, the round of a job with a group and, for a job with dependencies, its earliest start.';

create or replace function holdfast.job_budget_names(links jsonb) returns jsonb
  language sql immutable
  set search_path = pg_catalog, pg_temp
  as $$
    select coalesce(jsonb_agg(one->'name'), '[]')
    from jsonb_array_elements(links->'budgets') as one
    where one->>'scope' is null
  $$;
comment on function holdfast.job_budget_names(jsonb) is 'Returns the names of the budgets of a job with these links, without the round of its group.';

-- PostgreSQL inlines this function only without a search_path setting. Therefore each operator is qualified with its schema.
create or replace function holdfast.job_places(links jsonb, holds text) returns table (key bigint, weight integer)
  language sql immutable
  as $$
    select (links operator(pg_catalog.->) 'lane' operator(pg_catalog.->>) 'key')::pg_catalog.int8, 1
    where holds operator(pg_catalog.=) any(array['all', 'lane'])
      and links operator(pg_catalog.?) 'lane'
    union all
    select (one operator(pg_catalog.->>) 'key')::pg_catalog.int8, (one operator(pg_catalog.->>) 'weight')::pg_catalog.int4
    from pg_catalog.jsonb_array_elements(links operator(pg_catalog.->) 'budgets') as one
    where holds operator(pg_catalog.=) any(array['all', 'budgets'])
  $$;
comment on function holdfast.job_places(jsonb, text) is
  'Returns the rows of the table lane in which a job with these links has a place, with its weight. holds: all, lane, budgets or none.';

create or replace function holdfast.job_record_follow_ups(linked jsonb) returns bigint[]
  language sql
  set search_path = pg_catalog, pg_temp
  as $$
    with gone as materialized (
      select
        coalesce(l.session, 0) as session, l.id, l.state, l.links, coalesce(l.holds, 'all') as holds,
        l.state <> 'retried' and exists (select from holdfast.dependency where needs = l.id) as is_awaited
      from jsonb_to_recordset(linked) as l (id bigint, session integer, state text, links jsonb, holds text)
    ),
    placed as materialized (
      select gone.session, p.key, sum(p.weight)::integer as weights
      from gone
      cross join lateral holdfast.job_places(gone.links, gone.holds) as p
      group by gone.session, p.key
    ),
    recorded as (
      insert into holdfast.follow_up (session, keys, weights, ended)
      select session, keys, weights, ended
      from (
        select
          session,
          (select array_agg(key order by key) from placed where placed.session = gone.session) as keys,
          (select array_agg(weights order by key) from placed where placed.session = gone.session) as weights,
          jsonb_agg(jsonb_build_object('id', id, 'state', state)) filter (where is_awaited) as ended
        from gone
        group by session
      ) as of_session
      where keys is not null
        or ended is not null
      returning number
    )
    select array_agg(number) from recorded
  $$;
comment on function holdfast.job_record_follow_ups(jsonb) is
  'Records the follow-up of jobs that have ended or left the table job: the room that they return, and the jobs on which others depend. Takes '
  'the same argument as job_release_links. Returns the numbers of the follow-ups.';

create or replace function holdfast.job_request_maintenance() returns void
  language sql
  set search_path = pg_catalog, pg_temp
  as $$
    select pg_notify(holdfast.notification_channel(), 'jobs-maintenance-due ' || session)
    from (select session from holdfast.worker order by not sleeping, random() limit 1) as chosen
  $$;
comment on function holdfast.job_request_maintenance() is 'Requests maintenance from one randomly chosen worker.';

create or replace function holdfast.lane_is_empty(cursors bigint[]) returns boolean
  language sql immutable
  as $$ select array_remove(cursors, null) = '{}' $$;
comment on function holdfast.lane_is_empty(bigint[]) is 'Whether no job is waiting in the list of a lane.';

create or replace function holdfast.lane_room(max integer, active integer, every bigint, burst integer, free_at timestamptz, at timestamptz)
  returns integer
  language sql immutable
  as $$
    select greatest(0, least(
      max - active,
      case
        when every is null then max
        else floor((burst * every - extract(epoch from greatest(free_at, at) - at) * 1e6) / every)
      end
    ))::integer
  $$;
comment on function holdfast.lane_room(integer, integer, bigint, integer, timestamptz, timestamptz) is
  'Returns the sum of the weights that a lane may admit now.';

create or replace function holdfast.lane_free_at(every bigint, free_at timestamptz, weights integer, at timestamptz) returns timestamptz
  language sql immutable
  as $$
    select case when every is null or weights = 0 then free_at else greatest(free_at, at) + make_interval(secs => weights * every / 1e6) end
  $$;
comment on function holdfast.lane_free_at(bigint, timestamptz, integer, timestamptz) is
  'Returns the time when the rate limit of a lane will have recovered, if jobs with these weights are admitted now.';

create or replace function holdfast.lane_round_max(queue bigint, kind text, pace real) returns integer
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select least(10000, ceil(pace) + coalesce(
      (select nullif(sum(slots), 0) from holdfast.worker where lane_round_max.queue = any(worker.queues) and lane_round_max.kind = any(kinds)),
      10
    ))::integer
  $$;
comment on function holdfast.lane_round_max(bigint, text, real) is
  'Returns the maximum number of admitted jobs of a kind with groups: enough to keep the workers busy until more jobs are admitted. A larger '
  'number would let the jobs of one group delay the others.';

create or replace function holdfast.lane_open(ids bigint[]) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    with given as materialized (
      select distinct on (p.key)
        p.key, coalesce(p.scope, asked.scope) as scope, p.name, p.every, p.burst, asked.queue, asked.id,
        case when p.scope = 'round' then holdfast.lane_round_max(asked.queue, p.name, 0) else p.max end as max
      from (
        -- Most of the jobs have the same places.
        select placed.scope, placed.place, w.queue, max(w.id) as id
        from holdfast.waiting w
        cross join lateral (
          select 'lane' as scope, w.links->'lane' as place where w.links ? 'lane' and w.stage <> 'budget'
          union all
          select 'budget', place
          from jsonb_array_elements(w.links->'budgets') as place
          where w.stage = 'budget' or not w.links ? 'lane'
        ) as placed
        where w.id = any(ids)
        group by placed.scope, placed.place, w.queue
      ) as asked
      cross join lateral jsonb_to_record(asked.place) as p (key bigint, scope text, name text, max integer, every bigint, burst integer)
      order by p.key, asked.id desc
    ),
    known as materialized (
      select given.key, l.version
      from given
      cross join lateral (
        select * from holdfast.lane where lane.key = given.key order by version desc limit 1
      ) as l
    ),
    made as (
      insert into holdfast.lane (key, scope, queue, name, max, every, burst, updated_by_job)
      select key, scope, queue, name, max, every, burst, id
      from given
      where not exists (select from known where known.key = given.key)
    )
    update holdfast.lane
    set version = lane.version + 1,
        max = given.max,
        every = given.every,
        burst = given.burst,
        updated_by_job = given.id
    from known
    join given on given.key = known.key
    where lane.key = known.key
      and lane.version = known.version
      and lane.scope <> 'round'
      and lane.updated_by_job < given.id
      and (lane.max, lane.every, lane.burst) is distinct from (given.max, given.every, given.burst);
  end
  $$;
comment on function holdfast.lane_open(bigint[]) is
  'Creates the lanes, or else the budgets and rounds, that these waiting jobs need next. The latest of the jobs sets the limits, unless a '
  'later job has already set them.';

create or replace function holdfast.lane_admit(ids bigint[], sources bigint[], out moved integer, out parked integer, out keys bigint[])
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    now constant timestamptz := clock_timestamp();
    next_round bigint;
    ready bigint[];
    next_step bigint[];
    other record;
  begin
    perform holdfast.lane_open(ids);
    -- Positions only grow, so that a reader of the list need not skip the dead index entries of earlier jobs.
    select (last_value + 1) * 1000 into next_round from holdfast.job_number;
    -- No CTE is joined with another one, because a nested loop over 1,000 rows each would take as long as the rest of
    -- the function.
    with candidate as materialized (
      select
        w.id, c.at, c.source, w.links, (-w.priority)::smallint as rank,
        case when w.links ? 'lane' and w.stage <> 'budget' then 'lane' else 'budgets' end as step
      from unnest(ids, sources) with ordinality as c (id, source, at)
      join holdfast.waiting w on w.id = c.id
    ),
    need as materialized (
      select
        c.*, p.key, p.weight, l.version,
        -- The sum includes the weights of all candidates before this one, even if they are not admitted. If a job
        -- therefore waits although there is room, this function is called again.
        c.source is null and not holdfast.lane_is_empty(l.cursors)
        or coalesce(sum(p.weight) over before, 0) + least(p.weight, l.max, l.burst)
          > holdfast.lane_room(l.max, l.active, l.every, l.burst, l.free_at, now) as is_blocked
      from candidate c
      cross join lateral holdfast.job_places(c.links, c.step) as p
      cross join lateral (
        select * from holdfast.lane where lane.key = p.key order by version desc limit 1
      ) as l
      window before as (partition by p.key order by c.at rows between unbounded preceding and 1 preceding)
    ),
    -- blocked_by: the list in which the job must wait. Null if the job is admitted.
    judged as materialized (
      select
        need.*,
        coalesce(min(key) filter (where is_blocked and key = source) over of_job, min(key) filter (where is_blocked) over of_job) as blocked_by,
        row_number() over of_job as place
      from need
      window of_job as (partition by id)
    ),
    entrant as materialized (
      select j.id, j.at, j.blocked_by as lane, j.rank, j.step, g.name as in_group, 1000 / coalesce(g.weight, 1) as distance
      from judged j
      left join lateral jsonb_to_record(j.links->'group') as g (name text, weight integer) on j.step = 'budgets'
      where j.place = 1
        and j.blocked_by is not null
        and j.blocked_by is distinct from j.source
    ),
    numbered as (
      select entrant.*, row_number() over (partition by lane, rank, in_group order by at) as nth
      from entrant
    ),
    positioned as (
      select
        id, step, numbered.lane, numbered.rank,
        sum(distance) over in_order
        + max(
          case
            when nth = 1 then greatest(
              coalesce(first.cursors, next_round),
              -- If no job is waiting, the index can contain many dead entries.
              case
                when first.cursors is null then null
                when in_group is null
                then (
                  select max(w.seq)
                  from holdfast.waiting w
                  where w.lane = numbered.lane
                    and w.rank = numbered.rank
                    and w.seq > first.cursors
                )
                else (
                  select max(w.seq)
                  from holdfast.waiting w
                  where w.lane = numbered.lane
                    and w.rank = numbered.rank
                    and w.stage = 'budget'
                    and w.links ? 'group'
                    and w.links->'group'->>'name' = in_group
                    and w.seq > first.cursors
                )
              end
            )
          end
        ) over in_order as seq
      from numbered
      cross join lateral (
        select l.cursors[numbered.rank + 6] as cursors from holdfast.lane l where l.key = numbered.lane order by version desc limit 1
      ) as first
      window in_order as (partition by numbered.lane, numbered.rank, in_group order by at rows unbounded preceding)
    ),
    parked_now as (
      update holdfast.waiting
      set stage = case p.step when 'lane' then 'lane' else 'budget' end,
          lane = p.lane,
          rank = p.rank,
          seq = p.seq
      -- The sort reads the last positions before the first update. Otherwise, the search for the last position would read the new entries.
      from (select * from positioned order by lane, rank, seq) as p
      where waiting.id = p.id
      returning waiting.lane as key, waiting.rank, waiting.seq
    ),
    counted as materialized (
      select
        key, max(version) as version, max(latest) as latest, coalesce(sum(more), 0)::integer as more,
        array_agg(rank) filter (where rank is not null) as ranks, array_agg(cursors) filter (where rank is not null) as cursors
      from (
        select key, version, id as latest, case when blocked_by is null then weight end as more, null::smallint as rank, null::bigint as cursors
        from judged
        union all
        select key, null, null, null, rank, min(seq) - 1 from parked_now group by key, rank
      ) as facts
      group by key
    ),
    changed as (
      update holdfast.lane
      set version = lane.version + 1,
          active = active + c.more,
          updated_by_job = greatest(updated_by_job, c.latest),
          free_at = holdfast.lane_free_at(every, free_at, c.more, now),
          -- The candidates may all wait for other lanes. lane_fill then deletes this lane, if no job has used it by then. If the lane is in
          -- use, no check is scheduled here, because lane_fill computes its time.
          due_at = case when active + c.more = 0 and c.ranks is null and holdfast.lane_is_empty(lane.cursors) then now + interval '1 s' end,
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
      array_agg(id) filter (where step = 'budgets' or not links ? 'budgets'),
      array_agg(id order by at) filter (where step = 'lane' and links ? 'budgets'),
      (select count(*) from entrant),
      (select array_agg(key) from changed where not holdfast.lane_is_empty(cursors))
    into ready, next_step, parked, keys
    from judged
    where place = 1
      and blocked_by is null;
    moved := 0;
    if ready is not null then
      moved := holdfast.job_make_ready(ready);
    end if;
    if next_step is not null then
      update holdfast.waiting
      set stage = 'budget',
          lane = null,
          rank = null,
          seq = null
      where id = any(next_step);
      select * into other from holdfast.lane_admit(next_step, array_fill(null::bigint, array[cardinality(next_step)]));
      moved := moved + other.moved;
      parked := parked + cardinality(next_step);
      keys := keys || other.keys;
    end if;
  end
  $$;
comment on function holdfast.lane_admit(bigint[], bigint[]) is
  'Admits waiting jobs that the caller has locked, in the given order, while there is room in their lane or in all their budgets. sources: '
  'the key of the list in which each job was waiting, or null if it was in no list. A job that cannot be admitted is added to the list of a '
  'row without room. moved: number of jobs that became ready. parked: number of jobs that changed to another list. keys: keys of the rows '
  'in whose lists jobs are waiting.';

create or replace function holdfast.lane_fill(keys bigint[], gone integer[]) returns integer
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    now constant timestamptz := clock_timestamp();
    -- Jobs that wait in different lists may need the same room. If one list always came first, the jobs of the others could wait without
    -- end. -1 reverses the order of the lists.
    flip constant bigint := case when random() < 0.5 then 0 else -1 end;
    chosen bigint[];
    sources bigint[];
    touched bigint[];
    settled bigint[];
    result record;
    moved integer := 0;
  begin
    with changed as (
      update holdfast.lane
      set version = l.version + 1,
          active = l.active - l.gone,
          pace = case when l.scope = 'round' then p.pace else 0 end,
          paced_at = now,
          max = case when l.scope = 'round' then holdfast.lane_round_max(l.queue, l.name, p.pace) else l.max end
      from (
        select l.*, t.gone
        from unnest(keys, gone) as t (key, gone)
        cross join lateral (
          select * from holdfast.lane where lane.key = t.key order by version desc limit 1
        ) as l
        where t.gone > 0
          or l.scope = 'round'
      ) as l
      cross join lateral (
        -- Rounded, because the cast to real fails for numbers below 1e-45.
        select (
          l.gone + round((l.pace * exp(-40 * extract(epoch from now - greatest(l.paced_at, now - interval '1 s'))))::numeric, 6)
        )::real as pace
      ) as p
      where lane.key = l.key
        and lane.version = l.version
      returning lane.key, lane.active > 0 and holdfast.lane_is_empty(lane.cursors) as is_settled
    )
    select array_agg(key) filter (where is_settled) into settled from changed;
    -- Nothing else changes in a lane that has jobs, but no waiting jobs.
    touched := array(select key from unnest(keys) as key where key <> all(coalesce(settled, '{}')) order by key # flip);
    if touched = '{}' then
      return 0;
    end if;
    -- Each pass admits a job or moves a job to another list. The number of passes is limited, because the lock is held
    -- during all passes. due_at ensures that the remaining jobs are processed soon.
    for pass in 1 .. 10 loop
      -- Skips jobs that another transaction is cancelling or replacing. due_at ensures that these jobs are checked again soon.
      select array_agg(next.id), array_agg(next.lane)
      into chosen, sources
      from unnest(touched) as t (key)
      cross join lateral (
        select * from holdfast.lane where lane.key = t.key order by version desc limit 1
      ) as l
      cross join lateral (select least(holdfast.lane_room(max, active, every, burst, free_at, now), 1000) as room) as r
      cross join lateral (
        select in_list.*
        from unnest(l.cursors) with ordinality as level (cursors, at)
        cross join lateral (
          select waiting.id, waiting.lane
          from holdfast.waiting
          where waiting.lane = l.key
            and waiting.rank = level.at - 6
            and waiting.seq > level.cursors
          order by waiting.seq
          limit r.room
          for update skip locked
        ) as in_list
        where level.cursors is not null
          and r.room > 0
        order by level.at
        limit r.room
      ) as next;
      exit when chosen is null;
      select * into result from holdfast.lane_admit(chosen, sources);
      moved := moved + result.moved;
      touched := array(select key from unnest(touched || result.keys) as key group by key order by key # flip);
      exit when result.moved + result.parked = 0;
    end loop;
    update holdfast.lane
    set version = l.version + 1,
        cursors = l.first,
        due_at = case
          when holdfast.lane_is_empty(l.first) then case when l.every is not null and l.active = 0 then l.free_at end
          -- The workers may have changed.
          when l.scope = 'round' and l.active >= l.max then now + interval '1 s'
          when l.active + l.charge > l.max then null
          when l.every is null then now + interval '20 ms'
          else greatest(now + interval '20 ms', l.free_at - make_interval(secs => (l.burst - l.charge) * l.every / 1e6))
        end
    from (
      select
        l.*,
        first,
        (
          -- Weight of the first job in the list.
          select least(p.weight, l.max, l.burst)
          from unnest(first) with ordinality as level (cursors, at)
          join holdfast.waiting w on w.lane = l.key and w.rank = level.at - 6 and w.seq = level.cursors + 1
          cross join lateral holdfast.job_places(w.links, 'all') as p
          where p.key = l.key
          order by level.at
          limit 1
        ) as charge
      from unnest(touched) as t (key)
      cross join lateral (
        select * from holdfast.lane where lane.key = t.key order by version desc limit 1
      ) as l
      cross join lateral (
        select array(
          select (
            select waiting.seq - 1
            from holdfast.waiting
            where waiting.lane = l.key
              and waiting.rank = level.at - 6
              and waiting.seq > level.cursors
            order by waiting.seq
            limit 1
          )
          from unnest(l.cursors) with ordinality as level (cursors, at)
          order by level.at
        ) as first
        offset 0
      ) as heads
    ) as l
    where lane.key = l.key
      and lane.version = l.version;
    delete from holdfast.lane
    using unnest(touched) as k (key)
    where lane.key = k.key
      and lane.version = (select version from holdfast.lane as l where l.key = k.key order by version desc limit 1)
      and lane.active = 0
      and holdfast.lane_is_empty(lane.cursors)
      and (lane.every is null or lane.free_at <= now);
    return moved;
  end
  $$;
comment on function holdfast.lane_fill(bigint[], integer[]) is
  'Subtracts the weights of jobs that have left from each lane, admits the next waiting jobs, and deletes unused lanes. '
  'Returns the number of admitted jobs.';

create or replace function holdfast.lane_enter(ids bigint[]) returns integer
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    result record;
  begin
    select * into result from holdfast.lane_admit(ids, array_fill(null::bigint, array[cardinality(ids)]));
    -- A lane with waiting jobs can have room, for example if its max was raised.
    if result.keys is not null then
      return result.moved + holdfast.lane_fill(result.keys, array_fill(0, array[cardinality(result.keys)]));
    end if;
    return result.moved;
  end
  $$;
comment on function holdfast.lane_enter(bigint[]) is
  'Adds due jobs that the caller has locked to their lanes and budgets. Each job becomes ready or waits. Returns the number of jobs that '
  'became ready.';

create or replace function holdfast.lane_reserve(heads json, out number bigint, out reserved integer[])
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    now constant timestamptz := clock_timestamp();
    latest constant bigint := (select last_value from holdfast.job_number);
    lanes jsonb;
  begin
    -- A snapshot that is older than the lock would show an old sum.
    perform holdfast.require_read_committed();
    -- The commit is not flushed. If a crash loses it, then it also loses the later commit that would use the room.
    perform set_config('synchronous_commit', 'off', true);
    for is_locked in 0 .. 1 loop
      with head as materialized (
        select h.at::integer as at, h.last_input - h.after_input as jobs, h.links
        from rows from (json_to_recordset(heads) as (after_input integer, last_input integer, links jsonb)) with ordinality
          as h (after_input, last_input, links, at)
      ),
      need as materialized (
        select
          head.at, p.key, p.weight::bigint * head.jobs as weights, given.*, known.key is null as is_new,
          known.key is not null and (
            not holdfast.lane_is_empty(known.cursors)
            or (known.max, known.every, known.burst) is distinct from (given.max, given.every, given.burst)
          )
          or coalesce(sum(p.weight::bigint * head.jobs) over before, 0) + p.weight::bigint * head.jobs
            > holdfast.lane_room(given.max, coalesce(known.active, 0), given.every, given.burst, coalesce(known.free_at, '-infinity'), now)
            as is_blocked
        from head
        cross join lateral holdfast.job_places(head.links, 'budgets') as p
        cross join lateral (
          select b.name, b.max, b.every, b.burst
          from jsonb_to_recordset(head.links->'budgets') as b (key bigint, name text, max integer, every bigint, burst integer)
          where b.key = p.key
        ) as given
        left join lateral (
          select * from holdfast.lane where lane.key = p.key order by version desc limit 1
        ) as known on true
        window before as (partition by p.key order by head.at rows between unbounded preceding and 1 preceding)
      ),
      free as materialized (
        select at from need group by at having not bool_or(is_blocked)
      )
      select
        (select array_agg(at order by at) from free),
        jsonb_agg(one)
      into reserved, lanes
      from (
        select key, sum(weights) as weights, bool_or(is_new) as is_new, min(name) as name, min(max) as max, min(every) as every, min(burst) as burst
        from need
        where (at in (select at from free)) is true
        group by key
      ) as one;
      -- Without the lock, the room may be gone. But if there is none, no lock is necessary.
      if reserved is null then
        return;
      end if;
      if is_locked = 0 then
        perform pg_advisory_xact_lock(holdfast.lock_class('job follow-ups'), 0);
      end if;
    end loop;
    insert into holdfast.lane (key, scope, queue, name, max, every, burst, updated_by_job)
    select l.key, 'budget', (heads->0->>'queue')::bigint, l.name, l.max, l.every, l.burst, latest
    from jsonb_to_recordset(lanes) as l (key bigint, is_new boolean, name text, max integer, every bigint, burst integer)
    where l.is_new;
    update holdfast.lane
    set version = known.version + 1,
        active = known.active + l.weights,
        updated_by_job = greatest(known.updated_by_job, latest),
        free_at = holdfast.lane_free_at(known.every, known.free_at, l.weights, now),
        due_at = null
    from jsonb_to_recordset(lanes) as l (key bigint, weights integer)
    cross join lateral (
      select * from holdfast.lane where lane.key = l.key order by version desc limit 1
    ) as known
    where lane.key = known.key
      and lane.version = known.version;
    insert into holdfast.lane_reservation (keys, weights)
    select array_agg(l.key), array_agg(l.weights)
    from jsonb_to_recordset(lanes) as l (key bigint, weights integer)
    returning lane_reservation.number into number;
  end
  $$;
comment on function holdfast.lane_reserve(json) is
  'Reserves room in budgets for jobs that the caller will enqueue next, if no job is waiting for these budgets and all have room. The argument '
  'is that of job_enqueue. reserved: positions of the heads whose jobs have room. number: number of the reservation, for job_enqueue.';

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
      insert into holdfast.job_stopped
        (id, queue, priority, kind, payload, state, error, enqueued_at, failed, crashes, max_crashes, log, failures, links, meta)
      select id, queue, priority, kind, payload, 'cancelled',
        json_build_object('name', 'JobCancelledError', 'message', reason, 'code', 'JOB_CANCELLED'),
        enqueued_at, failed, crashes, max_crashes, log, failures, links, meta
      from gone
      returning id, queue, kind, links
    )
    select jsonb_agg(
      jsonb_build_object('id', id, 'queue', queue, 'kind', kind, 'state', 'cancelled', 'links', links, 'holds', 'none')
    )
    into linked
    from kept;
    delete from holdfast.dependency where job = any(ids);
    perform holdfast.job_release_links(linked);
  end
  $$;
comment on function holdfast.job_cancel_dependents(bigint[], text[]) is
  'Cancels waiting jobs that the caller has locked, because a job that they depend on has failed.';

create or replace function holdfast.job_wait_for_dependencies(ids bigint[]) returns bigint[]
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    -- The lock on the follow-ups is held meanwhile. The other jobs stay due, and maintenance admits them.
    max_pairs constant integer := 20000;
    needed bigint[];
    waits bigint[];
    stopped bigint[];
    claims bigint[];
    queues bigint[];
    unsure bigint[];
    failed bigint[];
    reasons text[];
    met bigint[];
    pairs jsonb;
    unmet_of jsonb;
  begin
    ids := array(
      select id
      from (
        select w.id, w.at, sum(w.pairs) over (order by w.at) - w.pairs as before
        from (
          select waiting.id, asked.at, jsonb_array_length(waiting.links->'after') as pairs
          from unnest(ids) with ordinality as asked (id, at)
          join holdfast.waiting on waiting.id = asked.id
        ) as w
      ) as counted
      where before < max_pairs
      order by at
    );
    delete from holdfast.dependency where job = any(ids);
    needed := array(
      select distinct needs.id::bigint
      from holdfast.waiting w
      cross join lateral jsonb_array_elements_text(w.links->'after') as needs (id)
      where w.id = any(ids)
    );
    -- Either a needed job's end must see this function's rows, or this function must see the end. To ensure this, the function
    -- locks the rows that change before an end. It skips rows that other transactions have locked, and the dependents are checked again
    -- later.
    waits := array(select id from holdfast.waiting where id = any(needed) order by id for update skip locked);
    stopped := array(select id from holdfast.job_stopped where id = any(needed) order by id for update skip locked);
    claims := array(select fence from holdfast.claim where claim.ids && needed order by fence for update skip locked);
    queues := array(
      select queue
      from (select distinct f.queue from holdfast.job_find(needed) as f where f.state = 'ready') as ready
      where pg_try_advisory_xact_lock(holdfast.lock_class('job claims'), queue::bit(32)::integer)
    );
    with found as materialized (
      select
        f.id, f.state,
        case f.state
          when 'waiting' then f.id = any(waits)
          when 'ready' then f.queue = any(queues)
          when 'running' then f.fence = any(claims)
          when 'cancelled' then f.id = any(stopped)
          when 'expired' then f.id = any(stopped)
          when 'buried' then f.id = any(stopped)
          else true
        end as is_sure
      from holdfast.job_find(needed) as f
    ),
    -- Reads the links once for each job. For each pair, a long list would be decompressed again.
    wanted as materialized (
      select id as job, links->>'ifFailed' as if_failed, links->'after' as after from holdfast.waiting where id = any(ids)
    ),
    pair as materialized (
      select job, if_failed, needs.id::bigint as needs, min(needs.at) as at
      from wanted
      cross join lateral jsonb_array_elements_text(wanted.after) with ordinality as needs (id, at)
      group by job, if_failed, needs.id
    ),
    judged as materialized (
      select
        pair.*,
        found.state,
        -- If a job is not found, it ended so long ago that its retention time has passed.
        coalesce(holdfast.job_blocks_dependent(found.state, pair.if_failed), false) as is_blocked,
        coalesce(found.state in ('cancelled', 'expired', 'buried') and pair.if_failed is null, false) as is_failed,
        coalesce(found.is_sure, true) as is_sure
      from pair
      left join found on found.id = pair.needs
    ),
    reasoned as (
      select distinct on (job) job, format('The job %s, which it waited for, was %s', needs, state) as reason
      from judged
      where is_failed
      order by job, at
    )
    select
      coalesce(jsonb_agg(jsonb_build_array(job, needs)) filter (where is_blocked), '[]'),
      coalesce(array_agg(distinct job) filter (where is_blocked and not is_sure), '{}'),
      coalesce((select array_agg(job order by job) from reasoned), '{}'),
      (select array_agg(reason order by job) from reasoned)
    into pairs, unsure, failed, reasons
    from judged;
    if failed <> '{}' then
      perform holdfast.job_cancel_dependents(failed, reasons);
      -- This call may also contain dependents of the failed jobs. job_cancel_dependents() did not find them, because they have no row in
      -- dependency yet.
      unsure := array(
        (
          select unnest(unsure)
          union
          select (one->>0)::bigint from jsonb_array_elements(pairs) as one where (one->>1)::bigint = any(failed)
        )
        except
        select unnest(failed)
      );
    end if;
    -- Some dependencies' states are not known yet, so these jobs are checked again soon.
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
    select coalesce(jsonb_object_agg(job, counted.unmet), '{}')
    into unmet_of
    from (select job, count(*) as unmet from certain group by job) as counted;
    -- Does not use a join, because a join would read the whole table or compare all pairs.
    update holdfast.waiting
    set stage = 'jobs',
        unmet = (unmet_of->>id::text)::integer
    where id = any(array(select key::bigint from jsonb_object_keys(unmet_of) as key));
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
  'Makes jobs that the caller has locked wait for dependencies that have not ended, or cancels the jobs. Returns the jobs that do not have '
  'to wait.';

create or replace function holdfast.job_release_dependents(ended jsonb, max_count integer, out released bigint[], out rest jsonb)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    reached integer;
    failed bigint[];
    reasons text[];
  begin
    with over as materialized (
      select id, state, is_failed
      from jsonb_to_recordset(ended) as e (id bigint, state text)
      cross join lateral (select state in ('cancelled', 'expired', 'buried') as is_failed) as facts
      -- A failed job may have been retried in the meantime.
      where not is_failed
        or (select true from holdfast.job_stopped where job_stopped.id = e.id limit 1)
    ),
    reached_now as materialized (
      select w.id, over.id as needs, over.state, over.is_failed and not w.has_policy as is_cancelled
      from over
      -- Without "offset 0", a join could compare all dependents with all ended jobs.
      cross join lateral (select job from holdfast.dependency where dependency.needs = over.id offset 0) as d
      cross join lateral (
        select id, links ? 'ifFailed' as has_policy
        from holdfast.waiting
        where waiting.id = d.job
          and waiting.stage = 'jobs'
          -- Skips dependents that are waiting for the failed job to be retried.
          and (not over.is_failed or links->>'ifFailed' is distinct from 'wait')
        for update skip locked
      ) as w
      limit max_count
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
    rest := (
      select jsonb_agg(jsonb_build_object('id', e.id, 'state', e.state))
      from jsonb_to_recordset(ended) as e (id bigint, state text)
      where (
        select true
        from holdfast.dependency d
        cross join lateral (
          select links from holdfast.waiting where waiting.id = d.job and waiting.stage = 'jobs' offset 0
        ) as w
        where d.needs = e.id
          and (e.state not in ('cancelled', 'expired', 'buried') or w.links->>'ifFailed' is distinct from 'wait')
        limit 1
      )
    );
  end
  $$;
comment on function holdfast.job_release_dependents(jsonb, integer) is
  'Handles up to max_count dependents of finished jobs: cancels them, or releases those without other dependencies. '
  'Returns the released jobs, and in rest the finished jobs whose other dependents must be handled by a later call.';

create or replace function holdfast.job_run_follow_ups(numbers bigint[], ids bigint[], session integer, out moved integer, out due_ms integer)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    keys bigint[];
    gone integer[];
    ended jsonb;
    released bigint[];
  begin
    -- The commit is not flushed, because a crash that loses the result also restores the follow-ups, and maintenance then runs them.
    perform set_config('synchronous_commit', 'off', true);
    perform pg_advisory_xact_lock(holdfast.lock_class('job follow-ups'), 0);
    moved := 0;
    if session is not null then
      numbers := numbers || array(select number from holdfast.follow_up where follow_up.session = job_run_follow_ups.session limit 1000);
    end if;
    -- Also runs the follow-ups that other workers have recorded in the meantime. These workers are waiting for the
    -- lock, and will find nothing left to do. Searches only follow-up numbers close to this call's numbers, because a
    -- search of all numbers could read many dead index entries.
    if numbers <> '{}' then
      numbers := numbers || array(
        select near.number
        from (select min(number) as first, max(number) as last from unnest(numbers) as number) as own
        cross join lateral (
          select follow_up.number from holdfast.follow_up where follow_up.number between own.first - 1000 and own.last + 1000 limit 1000
        ) as near
      );
    end if;
    with done as (
      delete from holdfast.follow_up where number = any(numbers) returning follow_up.keys, follow_up.weights, follow_up.ended
    ),
    expired as (
      delete from holdfast.lane_reservation
      where job_run_follow_ups.session = 0
        and number = any(
          array(
            -- Skips a reservation that a transaction is using now.
            select r.number
            from holdfast.lane_reservation r
            where r.expires_at <= (select clock_timestamp())
            order by r.expires_at
            limit 1000
            for update skip locked
          )
        )
      returning lane_reservation.keys, lane_reservation.weights
    ),
    counted as (
      select key, sum(weight)::integer as weights
      from (
        select p.key, p.weight from done cross join lateral unnest(done.keys, done.weights) as p (key, weight)
        union all
        select p.key, p.weight from expired cross join lateral unnest(expired.keys, expired.weights) as p (key, weight)
        union all
        select key, 0 from (
          select key from holdfast.lane where due_at <= (select clock_timestamp()) order by due_at limit 500
        ) as due
      ) as changed
      group by key
    )
    select
      (select array_agg(key order by key) from counted),
      (select array_agg(weights order by key) from counted),
      (select jsonb_agg(one) from done cross join lateral jsonb_array_elements(done.ended) as one)
    into keys, gone, ended;
    if ended is not null then
      select r.released, r.rest into released, ended from holdfast.job_release_dependents(ended, 2000) as r;
      ids := ids || released;
      if ended is not null then
        insert into holdfast.follow_up (session, ended) values (0, ended);
      end if;
    end if;
    if keys is not null then
      moved := holdfast.lane_fill(keys, gone);
    end if;
    if cardinality(ids) > 0 then
      -- Also admits the due jobs that no one has admitted yet, such as those of a transaction. They may be earlier in the same lane.
      ids := ids || array(
        select id
        from (
          select id, links from holdfast.waiting where stage = 'time' and run_at <= (select clock_timestamp()) order by run_at limit 1000
        ) as due
        where links ?| '{lane,budgets,after}'
          and id <> all(ids)
      );
      moved := moved + holdfast.job_admit(ids);
    end if;
    if exists (select from holdfast.follow_up where follow_up.session = 0) then
      due_ms := 0;
      return;
    end if;
    select greatest(1, ceil(extract(epoch from min(at) - clock_timestamp()) * 1000))::integer
    into due_ms
    from (
      -- The result is at most one day, because milliseconds overflow a 32-bit integer after 24 days.
      (select due_at from holdfast.lane where due_at < (select clock_timestamp() + interval '1 day') order by due_at limit 1)
      union all
      (select run_at from holdfast.waiting where stage = 'time' and run_at < (select clock_timestamp() + interval '1 s') order by run_at limit 1)
    ) as next (at)
    having count(*) > 0;
  end
  $$;
comment on function holdfast.job_run_follow_ups(bigint[], bigint[], integer) is
  'Runs the follow-ups with the given numbers, the follow-ups with nearby numbers, and this session''s follow-ups. Then admits waiting '
  'jobs. Only one such transaction runs at a time, and it is short. moved: number of jobs that became ready. due_ms: time until the next '
  'work is due, or 0 if follow-ups without an owner remain (session 0).';

-- Steps and events.

create or replace function holdfast.job_owns(job_id bigint, claim_fence bigint) returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    -- As in job_done, an older snapshot would not show that the attempt has ended.
    perform holdfast.require_read_committed();
    -- The row lock prevents the attempt from ending: job_end, job_done and job_take_over lock the claim for update.
    perform from holdfast.claim where claim.fence = claim_fence and job_id = any(claim.ids) for key share;
    return found and not exists (
      select
      from holdfast.job_end e
      where e.bucket = holdfast.job_bucket(job_id)
        and e.fence = claim_fence
        and job_id = any(e.ids)
    );
  end
  $$;
comment on function holdfast.job_owns(bigint, bigint) is
  'Returns whether the claim with the given fencing token still owns the job. If so, the attempt cannot end before this transaction ends.';

create or replace function holdfast.job_record_step(
  job_id bigint, claim_fence bigint, step text, kind text, attempt integer, duration_ms double precision, result json
) returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    if not holdfast.job_owns(job_id, claim_fence) then
      return false;
    end if;
    insert into holdfast.job_step as known (job, name, kind, fence, attempt, started_at, ended_at, result)
    values (
      job_id, step, kind, claim_fence, attempt, clock_timestamp() - make_interval(secs => duration_ms / 1000), clock_timestamp(), result
    )
    -- A record whose response was lost may be repeated. Only a cursor changes.
    on conflict on constraint job_step_pkey do update
    set result = excluded.result,
        fence = excluded.fence,
        attempt = excluded.attempt,
        ended_at = excluded.ended_at
    where known.kind = 'cursor';
    return true;
  end
  $$;
comment on function holdfast.job_record_step(bigint, bigint, text, text, integer, double precision, json) is
  'Records a step of a running job. Returns false if the claim no longer owns the job.';

create or replace function holdfast.job_wait(
  job_id bigint,
  claim_fence bigint,
  step text,
  kind text,
  attempt integer,
  for_event text,
  wait_ms double precision,
  until timestamptz,
  out state text,
  out result json,
  out left_ms double precision
)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    known holdfast.job_step;
    arrived integer;
  begin
    if not holdfast.job_owns(job_id, claim_fence) then
      state := 'lost';
      return;
    end if;
    insert into holdfast.job_step (job, name, kind, fence, attempt, started_at, due_at, event)
    values (
      job_id, step, kind, claim_fence, attempt, clock_timestamp(), coalesce(until, clock_timestamp() + make_interval(secs => wait_ms / 1000)),
      for_event
    )
    on conflict on constraint job_step_pkey do nothing;
    select * into known from holdfast.job_step where job_step.job = job_id and job_step.name = step;
    if known.ended_at is null and for_event is not null then
      update holdfast.job_event
      set step = job_wait.step
      where job_event.job = job_id
        and job_event.number = (
          select number
          from holdfast.job_event e
          where e.job = job_id and e.event = for_event and e.step is null
          order by number
          limit 1
          -- Another wait of the same attempt may be taking an event.
          for update
        )
      returning job_event.number, job_event.data into arrived, known.result;
    end if;
    if known.ended_at is null and (arrived is not null or known.due_at <= clock_timestamp()) then
      update holdfast.job_step
      set ended_at = clock_timestamp(),
          result = known.result,
          fence = claim_fence,
          attempt = job_wait.attempt
      where job_step.job = job_id
        and job_step.name = step
      returning job_step.ended_at into known.ended_at;
    end if;
    if known.ended_at is not null then
      state := 'ended';
      result := known.result;
      return;
    end if;
    state := 'open';
    left_ms := ceil(extract(epoch from known.due_at - clock_timestamp()) * 1000);
  end
  $$;
comment on function holdfast.job_wait(bigint, bigint, text, text, integer, text, double precision, timestamptz) is
  'Begins or ends a sleep or a wait for an event. state: ended (the sleep is over, the event is the result, or the event did not arrive in '
  'time and the result is null), open (the job must be suspended), or lost (the claim no longer owns the job).';

create or replace function holdfast.job_suspend(
  job_id bigint, claim_fence bigint, step text, out recorded bigint[], out follow_ups bigint[]
)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    wait holdfast.job_step;
    has_event boolean;
  begin
    select * into wait from holdfast.job_step where job_step.job = job_id and job_step.name = step;
    if wait.event is not null then
      -- job_send takes the same lock. If job_send is first, this function sees the event. If this function is first, job_send sees the
      -- waiting job.
      perform pg_advisory_xact_lock(holdfast.lock_class('job events'), job_id::bit(32)::integer);
    end if;
    has_event := exists (
      select from holdfast.job_event e where e.job = job_id and e.event = wait.event and e.step is null
    );
    select e.recorded, e.follow_ups
    into recorded, follow_ups
    from holdfast.job_end(
      json_build_array(json_build_object(
        'id', job_id, 'fence', claim_fence, 'state', case when has_event then 'returned' else 'retried' end,
        'delay_ms', greatest(0, ceil(extract(epoch from wait.due_at - clock_timestamp()) * 1000))::bigint
      )),
      '{}'
    ) as e;
  end
  $$;
comment on function holdfast.job_suspend(bigint, bigint, text) is
  'Ends an attempt whose handler sleeps or waits for an event. The job then waits until the sleep ends or the event arrives. If the event '
  'has already arrived, the job is ready. Returns the same columns as job_end.';

create or replace function holdfast.job_send(job_id bigint, event text, data json, key text) returns text
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    last_number integer;
    untaken integer;
    is_linked boolean;
  begin
    -- A snapshot that is older than the lock would not show a job that is being suspended.
    perform holdfast.require_read_committed();
    perform pg_advisory_xact_lock(holdfast.lock_class('job events'), job_id::bit(32)::integer);
    if not exists (select from holdfast.job_find(array[job_id]) as f where f.state in ('waiting', 'ready', 'running')) then
      return 'ended';
    end if;
    if key is not null and exists (
      select from holdfast.job_event e where e.job = job_id and e.event = job_send.event and e.key = job_send.key
    ) then
      return 'known';
    end if;
    select max(number), count(*) filter (where step is null) into last_number, untaken from holdfast.job_event where job = job_id;
    if untaken >= 1000 then
      return 'full';
    end if;
    insert into holdfast.job_event (job, number, event, key, data)
    values (job_id, coalesce(last_number, 0) + 1, job_send.event, job_send.key, job_send.data);
    update holdfast.waiting
    set run_at = clock_timestamp()
    where id = job_id
      and stage = 'time'
      and exists (
        select from holdfast.job_step s where s.job = job_id and s.event = job_send.event and s.ended_at is null
      )
    returning coalesce(links ?| '{lane,budgets,after}', false)
    into is_linked;
    if is_linked then
      perform holdfast.job_request_maintenance();
    elsif is_linked is not null then
      perform holdfast.job_make_ready(array[job_id]);
    end if;
    return 'sent';
  end
  $$;
comment on function holdfast.job_send(bigint, text, json, text) is
  'Sends an event to a job, and resumes the job if it is waiting for this event. Returns sent, known (an event with this name and key was '
  'sent before), ended (the job has ended or does not exist), or full (1,000 events have not been received by the handler).';

create or replace function holdfast.send(job bigint, event text, data anycompatible, key text default null) returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    -- The cast throws if the text is not JSON.
    input constant text := data::text::json::text;
    answer text;
  begin
    if job is null or coalesce(event, '') = '' or length(event) > 200 or key = '' or length(key) > 500 then
      raise exception 'Expected a job id, an event of 1 to 200 characters, and a key of 1 to 500 characters or null'
        using errcode = '22023';
    end if;
    if input is null then
      raise exception 'Expected JSON data, got null'
        using errcode = '22023',
              hint = 'Write the JSON null as ''null''.';
    end if;
    if octet_length(input) > 100000 then
      raise exception 'Expected data of at most 100000 bytes of JSON, got %', octet_length(input)
        using errcode = '22023',
              hint = 'Store large data elsewhere, such as in a table of your own, and put a reference to it into the event.';
    end if;
    answer := holdfast.job_send(job, event, input::json, key);
    if answer = 'full' then
      raise exception 'The job % has 1000 events that its handler has not received', job using errcode = '54000';
    end if;
    return answer <> 'ended';
  end
  $$;
comment on function holdfast.send(bigint, text, anycompatible, text) is
  'Sends an event to a job from SQL, in the current transaction: select holdfast.send(42, ''approved'', ''{"by": "ada"}''). Returns false if '
  'the job has ended or does not exist.';
