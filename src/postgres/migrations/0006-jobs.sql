-- Jobs: what may run now and what runs (job), what may not run yet (waiting), what has ended (job_history), who works
-- (worker), and how the jobs of a dead worker are found (claim).

create sequence holdfast.job_number as bigint;
comment on sequence holdfast.job_number is
  'Numbers of jobs, and of places in the order: a job gets its id from it, and another number each time that it comes back to the table job.';

create table holdfast.queue (
  key bigint primary key,
  namespace text not null,
  name text not null,
  paused_at timestamptz
);
comment on table holdfast.queue is 'Queues that were used. A job needs no row here; whoever pauses a queue writes it.';
comment on column holdfast.queue.key is 'The key of the name, as lock_key() makes it from namespace and queue/<name>.';
comment on column holdfast.queue.namespace is 'The namespace of the queue.';
comment on column holdfast.queue.name is 'Its name.';
comment on column holdfast.queue.paused_at is 'Since when none of its jobs is claimed; null when they are.';

create table holdfast.job (
  id bigint primary key,
  seq bigint not null,
  queue bigint not null,
  priority smallint not null,
  kind text not null,
  payload json not null,
  enqueued_at timestamptz not null default clock_timestamp(),
  session integer,
  fence bigint,
  claimed_at timestamptz,
  failed integer not null default 0,
  crashes smallint not null default 0,
  max_crashes smallint not null default 3,
  started boolean not null default false,
  cancelled text,
  progress real,
  log text[],
  failures jsonb,
  ties jsonb
) with (
  -- A claim writes each row anew beside its old version, and makes no index entry while the page has room for both.
  fillfactor = 40,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_insert_scale_factor = 0.2,
  autovacuum_vacuum_cost_delay = 0
);
comment on table holdfast.job is
  'Jobs that may run now, or run. Kept small: what may not run yet is in waiting, what has ended is in job_history. No index may hold what a claim changes.';
comment on column holdfast.job.id is 'The number by which people know it; it stays the same for good.';
comment on column holdfast.job.seq is 'Its place in the order of its queue and priority. A new one each time that it comes back to this table, so that cursors which have passed the old one find it.';
comment on column holdfast.job.queue is 'The key of its queue.';
comment on column holdfast.job.priority is 'Larger goes first; from -5 to 5.';
comment on column holdfast.job.kind is 'The name of its definition.';
comment on column holdfast.job.payload is 'Its input.';
comment on column holdfast.job.enqueued_at is 'When it was enqueued.';
comment on column holdfast.job.session is 'The number of the life that has claimed it; null when nobody has.';
comment on column holdfast.job.fence is 'The fence of the claim. Whoever writes about a running job must know it.';
comment on column holdfast.job.claimed_at is 'When it was claimed.';
comment on column holdfast.job.failed is 'How many of its attempts have failed.';
comment on column holdfast.job.crashes is 'How many workers died while they had it.';
comment on column holdfast.job.max_crashes is 'With so many crashes it is buried.';
comment on column holdfast.job.started is 'Set before it is run by those who run what may have killed a worker: such a job is charged with another crash only if it was started.';
comment on column holdfast.job.cancelled is 'Why it is to stop; null when it is not.';
comment on column holdfast.job.progress is 'How far it is, as its handler said.';
comment on column holdfast.job.log is 'What its handler logged: the last hundred lines.';
comment on column holdfast.job.failures is 'What its attempts failed or crashed of, when and where: the last twenty.';
comment on column holdfast.job.ties is 'What ties it to others; null for most jobs, which nothing does. Whatever it is, it goes with the job from table to table.';
create index job_order on holdfast.job (queue, priority, seq);
-- Who has the places of a lane.
create index job_lane on holdfast.job (((ties->'lane'->>'key')::bigint)) where ties ? 'lane';
create index job_workflow on holdfast.job (((ties->>'workflow')::bigint)) where ties ? 'workflow';

create table holdfast.waiting (
  id bigint primary key,
  queue bigint not null,
  priority smallint not null,
  kind text not null,
  payload json not null,
  enqueued_at timestamptz not null default clock_timestamp(),
  run_at timestamptz not null,
  failed integer not null default 0,
  crashes smallint not null default 0,
  max_crashes smallint not null default 3,
  log text[],
  failures jsonb,
  ties jsonb,
  stage text not null default 'time',
  lane bigint,
  rank smallint,
  seq bigint,
  missing integer
);
comment on table holdfast.waiting is
  'Jobs that may not run yet: they were delayed, an attempt has failed, or others must go before them.';
comment on column holdfast.waiting.id is 'Its id.';
comment on column holdfast.waiting.queue is 'The key of its queue.';
comment on column holdfast.waiting.priority is 'As in job.';
comment on column holdfast.waiting.kind is 'The name of its definition.';
comment on column holdfast.waiting.payload is 'Its input.';
comment on column holdfast.waiting.enqueued_at is 'When it was enqueued.';
comment on column holdfast.waiting.run_at is 'From then on it may run.';
comment on column holdfast.waiting.failed is 'How many of its attempts have failed. None: it was delayed by who enqueued it.';
comment on column holdfast.waiting.crashes is 'How many workers died while they had it.';
comment on column holdfast.waiting.max_crashes is 'With so many crashes it is buried.';
comment on column holdfast.waiting.log is 'As in job.';
comment on column holdfast.waiting.failures is 'As in job.';
comment on column holdfast.waiting.ties is 'As in job.';
-- For people who look into one queue.
create index waiting_queue on holdfast.waiting (queue, run_at);
comment on column holdfast.waiting.stage is 'What it waits for. time: its time, and then to be let in. lane: it is parked in its lane. jobs: others must end before.';
comment on column holdfast.waiting.lane is 'The key of the lane that it is parked in.';
comment on column holdfast.waiting.rank is 'Its priority turned round, so that the smaller goes first in its lane.';
comment on column holdfast.waiting.seq is 'Its place in its lane, within its priority.';
comment on column holdfast.waiting.missing is 'For how many jobs it waits, in the stage jobs.';
create index waiting_run_at on holdfast.waiting (run_at) where stage = 'time';
create index waiting_lane on holdfast.waiting (lane, rank, seq) where stage = 'lane';
create index waiting_workflow on holdfast.waiting (((ties->>'workflow')::bigint)) where ties ? 'workflow';

create table holdfast.job_history (
  id bigint not null,
  queue bigint not null,
  priority smallint not null,
  kind text not null,
  payload json not null,
  state text not null,
  result json,
  error json,
  enqueued_at timestamptz not null,
  claimed_at timestamptz,
  ended_at timestamptz not null default clock_timestamp(),
  session integer,
  fence bigint,
  failed integer not null,
  crashes smallint not null,
  max_crashes smallint not null,
  progress real,
  log text[],
  failures jsonb,
  ties jsonb
) partition by range (ended_at);
comment on table holdfast.job_history is
  'Jobs that have ended, by the day (UTC) of their end. A day is dropped whole when its time is over.';
comment on column holdfast.job_history.id is 'Its id.';
comment on column holdfast.job_history.queue is 'The key of its queue.';
comment on column holdfast.job_history.priority is 'As in job.';
comment on column holdfast.job_history.kind is 'The name of its definition.';
comment on column holdfast.job_history.payload is 'Its input.';
comment on column holdfast.job_history.state is 'done: its handler returned. cancelled: somebody cancelled it. discarded: its handler said so. buried: it failed for good, and redrive brings it back.';
comment on column holdfast.job_history.result is 'What its handler returned; null for nothing.';
comment on column holdfast.job_history.error is 'Why it did not come to its end: name, message and code.';
comment on column holdfast.job_history.enqueued_at is 'When it was enqueued.';
comment on column holdfast.job_history.claimed_at is 'When its last attempt was claimed; null when there was none.';
comment on column holdfast.job_history.ended_at is 'When it ended.';
comment on column holdfast.job_history.session is 'The number of the life that ended it, or died with it; null when nobody had it.';
comment on column holdfast.job_history.fence is 'The fence of its last claim.';
comment on column holdfast.job_history.failed is 'How many of its attempts have failed.';
comment on column holdfast.job_history.crashes is 'How many workers died while they had it.';
comment on column holdfast.job_history.max_crashes is 'As in job.';
comment on column holdfast.job_history.progress is 'As in job.';
comment on column holdfast.job_history.log is 'As in job.';
comment on column holdfast.job_history.failures is 'As in job.';
comment on column holdfast.job_history.ties is 'As in job.';
create unique index job_history_id on holdfast.job_history (id, ended_at);
-- Logical replication needs to know a row that is changed or deleted. By an index, because "pg_restore --clean" cannot drop the
-- primary key of a partition.
alter table holdfast.job_history replica identity using index job_history_id;
create index job_history_failed on holdfast.job_history (queue, state, id) where state <> 'done';
create index job_history_workflow on holdfast.job_history (((ties->>'workflow')::bigint)) where ties ? 'workflow';

create table holdfast.job_history_rest partition of holdfast.job_history default;
alter table holdfast.job_history_rest replica identity using index job_history_rest_id_ended_at_idx;
comment on table holdfast.job_history_rest is 'Jobs that ended on a day whose table was not there yet.';
comment on column holdfast.job_history_rest.id is 'As in job_history.';
comment on column holdfast.job_history_rest.queue is 'As in job_history.';
comment on column holdfast.job_history_rest.priority is 'As in job_history.';
comment on column holdfast.job_history_rest.kind is 'As in job_history.';
comment on column holdfast.job_history_rest.payload is 'As in job_history.';
comment on column holdfast.job_history_rest.state is 'As in job_history.';
comment on column holdfast.job_history_rest.result is 'As in job_history.';
comment on column holdfast.job_history_rest.error is 'As in job_history.';
comment on column holdfast.job_history_rest.enqueued_at is 'As in job_history.';
comment on column holdfast.job_history_rest.claimed_at is 'As in job_history.';
comment on column holdfast.job_history_rest.ended_at is 'As in job_history.';
comment on column holdfast.job_history_rest.session is 'As in job_history.';
comment on column holdfast.job_history_rest.fence is 'As in job_history.';
comment on column holdfast.job_history_rest.failed is 'As in job_history.';
comment on column holdfast.job_history_rest.crashes is 'As in job_history.';
comment on column holdfast.job_history_rest.max_crashes is 'As in job_history.';
comment on column holdfast.job_history_rest.progress is 'As in job_history.';
comment on column holdfast.job_history_rest.log is 'As in job_history.';
comment on column holdfast.job_history_rest.failures is 'As in job_history.';
comment on column holdfast.job_history_rest.ties is 'As in job_history.';

create table holdfast.worker (
  session integer not null,
  number integer not null,
  instance text not null,
  queues bigint[] not null,
  kinds text[] not null default '{}',
  claims text not null default 'rows',
  sleeping boolean not null default false,
  since timestamptz not null default clock_timestamp(),
  primary key (session, number)
) with (fillfactor = 50);
comment on table holdfast.worker is
  'Who works, or worked when it died. Only a life with a row here can claim jobs; the row goes when nothing that it has claimed is left.';
comment on column holdfast.worker.session is 'The number of the life (see instance).';
comment on column holdfast.worker.number is 'Which of the workers of the instance.';
comment on column holdfast.worker.instance is 'The instance.';
comment on column holdfast.worker.queues is 'The keys of the queues that it serves.';
comment on column holdfast.worker.kinds is 'The names of its definitions: it claims the jobs of these kinds. Empty once it claims nothing more, because it closes.';
comment on column holdfast.worker.claims is 'How it claims: rows, which writes on the row of each job, or advisory, which locks them (see job_take).';
comment on column holdfast.worker.sleeping is 'Whether it wants to be told of new jobs, because it has nothing to do.';
comment on column holdfast.worker.since is 'Since when.';

create function holdfast.job_serving() returns setof holdfast.worker
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
comment on function holdfast.job_serving() is 'The workers that claim jobs: those that are alive, without those that are closing.';

create function holdfast.job_unserved(queues bigint[], kinds text[]) returns table (queue bigint, kind text, unserved text)
  language sql
  set search_path = pg_catalog, pg_temp
  as $$
    with serving as materialized (
      select distinct s.queues, s.kinds from holdfast.job_serving() as s
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
  'Of these pairs of a queue and a kind, those whose jobs no worker claims. unserved: queue, if no worker serves the queue; kind, if none of its workers has a definition of the kind.';

create table holdfast.claim (
  fence bigint primary key,
  session integer not null,
  token bigint not null,
  jobs bigint[] not null,
  upto bigint,
  claimed_at timestamptz not null default clock_timestamp()
);
-- To compress it would cost more than to write it.
alter table holdfast.claim alter column jobs set storage external;
comment on table holdfast.claim is
  'Claims: which jobs were claimed together. They lead to the jobs of a dead worker; whether a job still belongs to a claim is said by its own row.';
comment on column holdfast.claim.fence is 'The fence of the claim.';
comment on column holdfast.claim.session is 'The number of the life that has claimed them.';
comment on column holdfast.claim.token is 'How the worker calls the claim, so that it finds one whose answer was lost.';
comment on column holdfast.claim.jobs is 'Their ids. The row goes when all of them have ended.';
comment on column holdfast.claim.upto is 'For a claim by advisory locks, which writes nothing on the rows of jobs: those that have come back with a larger seq are not meant any more. Null for the others.';
comment on column holdfast.claim.claimed_at is 'When.';

create table holdfast.unique_job (
  queue bigint not null,
  kind text not null,
  key text not null,
  id bigint not null,
  until text not null,
  expires_at timestamptz,
  primary key (queue, kind, key)
);
comment on table holdfast.unique_job is 'Keys of unique jobs that are held. Whoever enqueues writes its row; who has none holds no key.';
comment on column holdfast.unique_job.queue is 'The key of the queue.';
comment on column holdfast.unique_job.kind is 'The name of the definition.';
comment on column holdfast.unique_job.key is 'The key, unique in its queue and kind.';
comment on column holdfast.unique_job.id is 'The job that holds it.';
comment on column holdfast.unique_job.until is 'For how long. started: until it is claimed. ended: until it has ended. window: until expires_at, or it is cancelled.';
comment on column holdfast.unique_job.expires_at is 'From then on the window is over; null when there is none.';
create index unique_job_expires_at on holdfast.unique_job (expires_at) where expires_at is not null;

create function holdfast.job_channel() returns text
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$ select nspname::text from pg_class join pg_namespace on pg_namespace.oid = relnamespace where pg_class.oid = 'holdfast.job'::regclass $$;
comment on function holdfast.job_channel() is 'The channel on which the fleet listens: the name of this schema.';

create function holdfast.job_wake(queue bigint, jobs bigint) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    chosen text;
  begin
    -- One for each job, whoever it is, so that jobs spread over those who have nothing to do.
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
      perform pg_notify(holdfast.job_channel(), 'jobs ' || chosen);
    end if;
  end
  $$;
comment on function holdfast.job_wake(bigint, bigint) is
  'Wakes workers of a queue that have nothing to do. Nobody is told while all are busy: a notification costs everybody at commit.';

create function holdfast.job_know_queue(key bigint, namespace text, name text) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    perform from holdfast.queue where queue.key = job_know_queue.key;
    -- Whoever is just writing it may be in a long transaction, and must not be waited for.
    if not found and pg_try_advisory_xact_lock(holdfast.session_class() # 4, key::bit(32)::integer) then
      insert into holdfast.queue (key, namespace, name)
      values (job_know_queue.key, job_know_queue.namespace, job_know_queue.name)
      on conflict on constraint queue_pkey do nothing;
    end if;
  end
  $$;
comment on function holdfast.job_know_queue(bigint, text, text) is 'Writes down the name of a queue, for people.';

create function holdfast.check_job_number() returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    floor bigint;
  begin
    if holdfast.noticed_generation() is not null then
      return;
    end if;
    -- Not advance_fence(): its row would stay locked for everybody until the transaction of the user ends.
    floor := holdfast.largest_job_number();
    -- The ids of a new installation begin at 1.
    if floor > (select last_value - (not is_called)::integer from holdfast.job_number)
      or not exists (select from holdfast.fencing where generation = 0)
    then
      floor := greatest(floor, holdfast.clock_floor());
    end if;
    perform holdfast.raise_sequence('holdfast.job_number', floor, false);
  end
  $$;
comment on function holdfast.check_job_number() is
  'Call it before drawing ids for new jobs. After a restart, a crash, a failover or a restore that no instance has noticed yet, it moves job_number ahead of all ids that were given before.';

create function holdfast.job_enqueue(heads json, inputs json) returns bigint[]
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    ids bigint[];
  begin
    perform holdfast.check_job_number();
    -- Numbers are drawn under a transaction id: whoever looks back knows by it which of them may still appear.
    perform pg_current_xact_id();
    with enqueued as (
      insert into holdfast.job (id, seq, queue, priority, kind, payload, max_crashes, ties)
      select number, number, queue, priority, kind, payload, max_crashes, ties
      from (
        select nextval('holdfast.job_number') as number, h.queue, h.priority, h.kind, e.payload, h.max_crashes, h.ties
        from json_to_recordset(heads)
          as h (queue bigint, kind text, priority smallint, max_crashes smallint, ties jsonb, above integer, upto integer)
        join json_array_elements(inputs) with ordinality as e (payload, at) on at > h.above and at <= h.upto
        offset 0
      ) as numbered
      returning id
    )
    select array_agg(id) into ids from enqueued;
    if exists (select from holdfast.worker where sleeping) then
      perform holdfast.job_wake(h.queue, sum(h.upto - h.above)::bigint)
      from json_to_recordset(heads) as h (queue bigint, above integer, upto integer)
      group by h.queue;
    end if;
    return ids;
  end
  $$;
comment on function holdfast.job_enqueue(json, json) is
  'Enqueues jobs that may run now. Heads: [{"queue": key, "kind": …, "priority": …, "max_crashes": …, "above": …, "upto": …}], each for the inputs with these numbers, counted from 1. With "ties" that hold nothing back: {"trace": …}. Answers with their ids, in this order.';

create function holdfast.job_enqueue_later(heads json, inputs json) returns bigint[]
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    ids bigint[];
  begin
    -- What is due already need not wait for a round to move it.
    if not exists (
      select from json_to_recordset(heads) as h (delay_ms bigint, run_at timestamptz)
      where delay_ms > 0 or run_at > clock_timestamp()
    ) then
      return holdfast.job_enqueue(heads, inputs);
    end if;
    perform holdfast.check_job_number();
    with enqueued as (
      insert into holdfast.waiting (id, queue, priority, kind, payload, max_crashes, run_at, ties)
      select
        number, queue, priority, kind, payload, max_crashes,
        coalesce(run_at, clock_timestamp() + make_interval(secs => delay_ms / 1000.0)), ties
      from (
        select nextval('holdfast.job_number') as number, h.*, e.payload
        from json_to_recordset(heads)
          as h (queue bigint, kind text, priority smallint, max_crashes smallint, delay_ms bigint, run_at timestamptz,
            ties jsonb, above integer, upto integer)
        join json_array_elements(inputs) with ordinality as e (payload, at) on at > h.above and at <= h.upto
        offset 0
      ) as numbered
      returning id
    )
    select array_agg(id) into ids from enqueued;
    -- Somebody must learn when they are due.
    perform holdfast.job_wake(h.queue, 1)
    from json_to_recordset(heads) as h (queue bigint)
    group by h.queue;
    return ids;
  end
  $$;
comment on function holdfast.job_enqueue_later(json, json) is
  'Enqueues jobs that may not run yet: as job_enqueue, with "delay_ms" or "run_at".';

create function holdfast.job_ready(ids bigint[]) returns integer
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
    moved integer;
  begin
    with gone as (
      delete from holdfast.waiting where id = any(ids) returning *
    ),
    ready as (
      insert into holdfast.job
        (id, seq, queue, priority, kind, payload, enqueued_at, failed, crashes, max_crashes, log, failures, ties)
      select id, nextval('holdfast.job_number'), queue, priority, kind, payload, enqueued_at, failed, crashes, max_crashes,
        log, failures, ties
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
comment on function holdfast.job_ready(bigint[]) is
  'Waiting jobs, locked by the caller, may run now. Answers how many they are.';

create function holdfast.job_admit(ids bigint[]) returns integer
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
    admitted integer := 0;
    free bigint[];
    laned bigint[];
    early bigint[];
  begin
    with asked as materialized (
      select id, stage, run_at, ties from holdfast.waiting where id = any(ids) order by id for update skip locked
    )
    select
      array_agg(id) filter (where is_due and not ties ? 'lane' and not is_before),
      array_agg(id) filter (where is_due and ties ? 'lane' and not is_before),
      array_agg(id) filter (where is_before)
    into free, laned, early
    from asked
    cross join lateral (
      select run_at <= clock_timestamp() as is_due, ties ? 'after' and not ties ? 'met' as is_before
    ) as facts
    where stage = 'time';
    if free is not null then
      admitted := holdfast.job_ready(free);
    end if;
    if laned is not null or early is not null then
      perform pg_advisory_xact_lock(holdfast.session_class() # 2, 2);
    end if;
    if early is not null then
      free := holdfast.job_await(early);
      if free <> '{}' then
        -- Nothing has to go before them any more.
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
  'Lets jobs with ties that are due go on, as far as what ties them allows. Answers how many may run now.';

create function holdfast.job_free_keys(tied jsonb) returns void
  language plpgsql
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    -- Nobody waits here: the row is locked only by who takes an expired window over, and then it is theirs.
    delete from holdfast.unique_job
    where ctid = any(
      array(
        select held.ctid
        from jsonb_to_recordset(tied) as t (id bigint, queue bigint, kind text, state text, ties jsonb)
        join holdfast.unique_job held
          on held.queue = t.queue and held.kind = t.kind and held.key = t.ties->'unique'->>'key' and held.id = t.id
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
  'Frees the keys of unique jobs that begin to run or leave, as job_settle is told of them; state running: they were claimed.';

create function holdfast.job_settle(tied jsonb) returns bigint[]
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    perform holdfast.job_free_keys(tied);
    return holdfast.job_loosen(tied);
  end
  $$;
comment on function holdfast.job_settle(jsonb) is
  'Does what follows for others when jobs with ties leave the table job, or end: [{"id": …, "queue": …, "kind": …, "state": …, "ties": …}]. What may not be done in a transaction that others hold is left to job_tie_up: answers with the numbers of these loose ends.';

create function holdfast.job_enqueue_tied(heads json, inputs json, is_alone boolean) returns bigint[]
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    ids bigint[];
    free bigint[];
  begin
    perform holdfast.check_job_number();
    with enqueued as (
      insert into holdfast.waiting (id, queue, priority, kind, payload, max_crashes, run_at, ties)
      select
        number, queue, priority, kind, payload, max_crashes,
        coalesce(run_at, clock_timestamp() + make_interval(secs => coalesce(delay_ms, 0) / 1000.0)), ties
      from (
        select coalesce(h.id, nextval('holdfast.job_number')) as number, h.*, e.payload
        from (
          select
            id, queue, kind, priority, max_crashes, above, upto,
            case when not ties ? 'after' then delay_ms end as delay_ms,
            case when not ties ? 'after' then run_at end as run_at,
            holdfast.job_bind(ties, queue, delay_ms, run_at) as ties
          from json_to_recordset(heads)
            as h (id bigint, queue bigint, kind text, priority smallint, max_crashes smallint, delay_ms bigint,
              run_at timestamptz, ties jsonb, above integer, upto integer)
          offset 0
        ) as h
        join json_array_elements(inputs) with ordinality as e (payload, at) on at > h.above and at <= h.upto
        offset 0
      ) as numbered
      returning id, ties
    )
    select array_agg(id), coalesce(array_agg(id) filter (where not ties ?| '{lane,after}'), '{}')
    into ids, free
    from enqueued;
    -- What ties jobs to each other is locked for an instant only, never for as long as a transaction of the caller lasts,
    -- nor while a disk is waited for: whoever enqueued alone calls job_tie_up then, and otherwise somebody is called.
    if is_alone then
      perform holdfast.job_admit(free);
    elsif cardinality(free) < cardinality(ids) then
      perform holdfast.job_call();
    end if;
    -- Somebody must learn when they are due.
    perform holdfast.job_wake(h.queue, 1)
    from json_to_recordset(heads) as h (queue bigint)
    group by h.queue;
    return ids;
  end
  $$;
comment on function holdfast.job_enqueue_tied(json, json, boolean) is
  'Enqueues jobs with "ties": as job_enqueue_later. Alone in its transaction, it lets those that others have no say in go on at once. Whoever has drawn the number of a job already gives its "id".';

create function holdfast.job_hold_still(job_id bigint, is_to_change boolean) returns text
  language plpgsql
  set search_path = pg_catalog, pg_temp
  set jit = off
  as $$
  begin
    if is_to_change then
      perform from holdfast.job where id = job_id and session is null for update;
    else
      perform from holdfast.job where id = job_id and session is null for key share;
    end if;
    if found then
      -- Whoever claims by advisory lock takes it before looking at the row: either they see our lock, or we see theirs.
      perform from holdfast.worker where claims = 'advisory' limit 1;
      return case when found and not holdfast.job_at_rest(job_id) then 'taken' else 'still' end;
    end if;
    if is_to_change then
      perform from holdfast.waiting where id = job_id for update;
    else
      perform from holdfast.waiting where id = job_id for key share;
    end if;
    return case when found then 'still' else 'moved' end;
  end
  $$;
comment on function holdfast.job_hold_still(bigint, boolean) is
  'Locks a job that waits: nobody claims it until the end of the transaction (still), or somebody has it already, by advisory lock (taken). moved: it does not wait, or not any more where it was seen.';

create function holdfast.job_replace(job_id bigint, input json, new_priority smallint, new_run_at timestamptz) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    moved jsonb;
  begin
    -- What its attempts failed of was another input.
    -- Another priority or time is another place: one that is parked in its lane is let in anew, and one that others must go
    -- before learns of its time then.
    update holdfast.waiting
    set payload = input,
        priority = new_priority,
        stage = case when stage = 'lane' and is_moved then 'time' else stage end,
        lane = case when not is_moved then lane end,
        rank = case when not is_moved then rank end,
        seq = case when not is_moved then seq end,
        run_at = case when stage = 'jobs' then run_at else coalesce(new_run_at, run_at) end,
        ties = case when stage = 'jobs' and new_run_at is not null then ties || jsonb_build_object('runAt', new_run_at) else ties end,
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
      -- Another priority is another order, where cursors may have passed its number.
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
      insert into holdfast.waiting (id, queue, priority, kind, payload, enqueued_at, run_at, max_crashes, log, ties)
      select id, queue, new_priority, kind, input, enqueued_at, new_run_at, max_crashes, log, ties
      from gone
      returning id, queue, kind, ties
    )
    select
      jsonb_agg(
        jsonb_build_object('id', id, 'queue', queue, 'kind', kind, 'state', 'retried', 'ties', ties, 'placed', true)
      )
    into moved
    from delayed;
    if moved is not null then
      perform holdfast.job_settle(moved);
      perform holdfast.job_call();
    end if;
  end
  $$;
comment on function holdfast.job_replace(bigint, json, smallint, timestamptz) is
  'Gives a job that is held still another input and priority, and another time if there is one.';

create function holdfast.job_enqueue_unique(
  heads json,
  inputs json,
  is_alone boolean,
  patience text,
  out ids bigint[],
  out are_new boolean[]
)
  language plpgsql
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    one record;
    held record;
    number bigint;
    at_once bigint[] := '{}';
    later bigint[] := '{}';
    found_as text;
    new_ties jsonb;
    is_new boolean;
  begin
    if patience is not null then
      perform set_config('lock_timeout', patience, true);
    end if;
    perform holdfast.check_job_number();
    -- Before numbers are drawn, as in job_enqueue.
    perform pg_current_xact_id();
    -- In one order everywhere, so that two who enqueue the same keys together do not wait for each other.
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
          run_at timestamptz, ties jsonb, "unique" jsonb),
        json_array_elements(inputs)
      ) with ordinality as a (queue, kind, priority, max_crashes, delay_ms, run_at, ties, unique_by, payload, at)
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
          -- Somebody was quicker.
          continue when not is_new;
        elsif held.is_over or held.until <> 'window' and not held.waits and not held.runs then
          -- Its window is over; or somebody has removed the job by hand.
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
            found_as := holdfast.job_hold_still(held.id, one.existing <> 'keep');
            if found_as = 'taken' and held.until = 'started' then
              -- It has its key still, so this is the moment of its claim.
              perform pg_sleep(0.001);
              continue;
            end if;
            continue when found_as = 'moved';
            if found_as = 'still' then
              if one.existing <> 'keep' then
                perform holdfast.job_replace(held.id, one.payload, one.priority, one.due_at);
              end if;
              later := later || one.queue;
            end if;
          end if;
        end if;
        exit;
      end loop;
      ids[one.at] := number;
      are_new[one.at] := is_new;
      continue when not is_new;
      new_ties := coalesce(one.ties, '{}') || jsonb_build_object('unique', jsonb_build_object('key', one.key, 'until', one.until));
      if one.ties is not null then
        perform holdfast.job_enqueue_tied(
          json_build_array(json_build_object(
            'id', number, 'queue', one.queue, 'kind', one.kind, 'priority', one.priority, 'max_crashes', one.max_crashes,
            'run_at', one.due_at, 'ties', new_ties, 'above', 0, 'upto', 1
          )),
          json_build_array(one.payload),
          is_alone
        );
      elsif one.due_at is not null then
        insert into holdfast.waiting (id, queue, priority, kind, payload, max_crashes, run_at, ties)
        values (number, one.queue, one.priority, one.kind, one.payload, one.max_crashes, one.due_at, new_ties);
        later := later || one.queue;
      else
        insert into holdfast.job (id, seq, queue, priority, kind, payload, max_crashes, ties)
        values (number, number, one.queue, one.priority, one.kind, one.payload, one.max_crashes, new_ties);
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
  'Enqueues jobs each of which holds a key, or finds that another job does. A head for each input, with "unique": {"key": …, "until": …, "for_ms": …, "existing": …}. Patience: for how long to wait for a transaction that is about to write such a key; null: as long as it takes.';

create function holdfast.job_retake_key(job_id bigint, job_queue bigint, job_kind text, ties jsonb) returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    wanted constant text := ties->'unique'->>'key';
    until_when constant text := ties->'unique'->>'until';
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
  'Whether a job that has ended may come back: it holds its key again, if it had one and no other job has it now.';

create function holdfast.job_sweep_keys(most integer) returns integer
  language plpgsql
  set jit = off
  set enable_seqscan = off
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
        limit most
        for update skip locked
      )
    );
    get diagnostics swept = row_count;
    return swept;
  end
  $$;
comment on function holdfast.job_sweep_keys(integer) is 'Forgets keys whose window is over, so many at a time. Answers how many.';

create function holdfast.job_cancel(job_id bigint, reason text, out answer text, out loose bigint[])
  language plpgsql
  set search_path = pg_catalog, pg_temp
  set jit = off
  as $$
  declare
    life integer;
    tied jsonb;
    is_found boolean;
  begin
    update holdfast.job
    set cancelled = reason
    where id = job_id
      and session is not null
    returning session into life;
    if found then
      perform pg_notify(holdfast.job_channel(), 'jobs-cancel ' || life);
      answer := 'told';
      return;
    end if;
    if not holdfast.job_at_rest(job_id) then
      update holdfast.job
      set cancelled = reason
      where id = job_id;
      if found then
        perform pg_notify(holdfast.job_channel(), 'jobs-cancel ' || claim.session)
        from holdfast.claim
        where upto is not null
          and job_id = any(jobs);
        answer := 'told';
        return;
      end if;
    end if;
    with ready as (
      delete from holdfast.job
      where id = job_id
        and session is null
      returning id, queue, priority, kind, payload, enqueued_at, failed, crashes, max_crashes, log, failures, ties
    ),
    waiting as (
      delete from holdfast.waiting
      where id = job_id
      returning id, queue, priority, kind, payload, enqueued_at, failed, crashes, max_crashes, log, failures, ties
    ),
    kept as (
      insert into holdfast.job_history
        (id, queue, priority, kind, payload, state, error, enqueued_at, failed, crashes, max_crashes, log, failures, ties)
      select id, queue, priority, kind, payload, 'cancelled',
        json_build_object('name', 'JobCancelledError', 'message', reason, 'code', 'JOB_CANCELLED'),
        enqueued_at, failed, crashes, max_crashes, log, failures, ties
      from (select * from ready union all select * from waiting) as unstarted
      returning id, queue, kind, ties
    )
    select
      count(*) > 0,
      jsonb_agg(
        jsonb_build_object(
          'id', id, 'queue', queue, 'kind', kind, 'state', 'cancelled', 'ties', ties,
          'placed', exists (select from ready)
        )
      ) filter (where ties is not null)
    into is_found, tied
    from kept;
    if tied is not null then
      loose := holdfast.job_settle(tied);
    end if;
    answer := case when is_found then 'cancelled' end;
  end
  $$;
comment on function holdfast.job_cancel(bigint, text) is
  'A job that waits ends here (cancelled); one that runs is to stop (told); null when there is none. What follows for others is loose (see job_tie_up).';

-- The payload may be json, jsonb or text. With one function for each of these types, a literal such as '{"to": "ada"}', whose
-- type PostgreSQL does not know yet, would fit several of them.
create function holdfast.enqueue(
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
    -- Refused here when it is no JSON.
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
      raise exception 'Expected a payload of JSON, got null'
        using errcode = '22023',
              hint = 'The JSON null is ''null''.';
    end if;
    if priority is null or priority not between -5 and 5 then
      raise exception 'Expected a priority from -5 to 5, got %', coalesce(priority::text, 'null')
        using errcode = '22023';
    end if;
    if lane = '' then
      raise exception 'Expected a lane that is not empty'
        using errcode = '22023';
    end if;
    if octet_length(input) > 1000000 then
      raise exception 'Expected a payload of at most 1000000 bytes of JSON, got %', octet_length(input)
        using errcode = '22023',
              hint = 'Keep large data in a table or a store of its own, and give the job its address.';
    end if;
    if unique_key = '' or length(unique_key) > 500 then
      raise exception 'Expected unique_key to have 1 to 500 characters, got %', length(unique_key)
        using errcode = '22023';
    end if;
    -- The library refuses the same names (src/base/missing-values.ts). A test compares the two.
    if names ~ '(^|[^[:alnum:]_-])(undefined|NaN|Invalid Date)($|[^[:alnum:]_-])|\[object [A-Za-z]\w*\]' then
      raise exception 'Expected queue, kind, unique_key, lane and namespace to have a value in every part, got "%"', names
        using errcode = '22023',
              hint = 'A template literal interpolated a value that is missing: every caller without it would share this name.';
    end if;
    perform holdfast.job_know_queue(key, namespace, queue);
    inputs := '[' || input || ']';
    heads := json_build_array(json_build_object(
      'queue', key,
      'kind', kind,
      'priority', priority,
      'max_crashes', 3,
      'delay_ms', (extract(epoch from delay) * 1000)::bigint,
      'run_at', run_at,
      'ties', case when lane is not null then json_build_object('lane', json_build_object('name', lane, 'max', 1)) end,
      'above', 0,
      'upto', 1,
      'unique', case
        when unique_key is not null then json_build_object('key', unique_key, 'until', 'ended', 'existing', 'keep')
      end
    ));
    if unique_key is not null then
      return (select ids[1] from holdfast.job_enqueue_unique(heads, inputs, false, null));
    end if;
    if lane is not null then
      return (holdfast.job_enqueue_tied(heads, inputs, false))[1];
    end if;
    if delay is null and run_at is null then
      return (holdfast.job_enqueue(heads, inputs))[1];
    end if;
    return (holdfast.job_enqueue_later(heads, inputs))[1];
  end
  $$;
comment on function holdfast.enqueue(text, text, anycompatible, integer, interval, timestamptz, text, text, text) is
  'Enqueues a job from SQL, in the transaction that runs it: select holdfast.enqueue(''default'', ''send-email'', ''{"to": "a@example.com"}''). Answers with its id, or with that of the job that has the unique_key.';

create function holdfast.job_claim(
  session integer,
  token bigint,
  queues bigint[],
  priorities integer[],
  cursors bigint[],
  kinds text[],
  most integer,
  announces boolean,
  looks_back boolean,
  out state text,
  out fence bigint,
  out jobs text,
  out passed text,
  out oldest text,
  out newest text,
  out last bigint
)
  language plpgsql
  -- One plan, and that of a queue with very much in it, whatever the table looked like when it was made.
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_sort = off
  set plan_cache_mode = force_generic_plan
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    paused bigint[];
    level integer;
    rows tid[] := '{}';
    more tid[];
    upto bigint;
    reached bigint[] := cursors;
    ids bigint[];
    keyed jsonb;
    short integer := most;
    is_one_kind constant boolean := cardinality(kinds) = 1;
    now constant timestamptz := clock_timestamp();
  begin
    -- A crash that forgets a claim ends the life that it belongs to, and frees its jobs alike.
    perform set_config('synchronous_commit', 'off', true);
    state := 'unsettled';
    if not holdfast.is_settled() then
      return;
    end if;
    -- Whoever takes over from a dead life excludes its late claims, and removes its row.
    perform pg_advisory_xact_lock_shared(holdfast.session_class() # 1, session);
    perform from holdfast.worker where worker.session = job_claim.session limit 1;
    state := 'gone';
    if not found then
      return;
    end if;
    state := 'claimed';
    if looks_back then
      -- Before the look: what was running then may not be visible to it.
      oldest := pg_snapshot_xmin(pg_current_snapshot())::text;
      last := (select last_value - (not is_called)::integer from holdfast.job_number);
      -- Of our own and drawn after that: whoever has drawn one of these numbers has a lower one. The end of a snapshot would
      -- not do: transactions that have begun since the last one was over lie above it.
      newest := pg_current_xact_id()::text;
    end if;
    paused := array(select key from holdfast.queue where key = any(queues) and paused_at is not null);
    for level in
      select l.level
      from unnest(queues, priorities, cursors) with ordinality as l (queue, priority, start, level)
      where l.queue <> all(paused)
        and (
          -- Most levels are empty, and to begin to lock costs more than to see that. Not asked twice of what lies far back.
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
      into more, upto
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
      reached[level] := upto;
      short := short - cardinality(more);
      exit when short <= 0;
    end loop;
    if cardinality(rows) > 0 then
      -- Drawn while they are locked, so that whoever claims one of them after us has a larger one.
      fence := nextval('holdfast.fence');
      with mine as (
        update holdfast.job
        set session = job_claim.session,
            fence = job_claim.fence,
            claimed_at = now
        where ctid = any(rows)
        returning id, seq, queue, priority, kind, payload, failed, crashes, max_crashes, ties
      )
      select
        -- Most jobs have nothing to tell but these three, and to write it costs as much as the claim itself.
        '[' || string_agg(
          case
            when seq = id and priority = 0 and failed = 0 and crashes = 0 and max_crashes = 3 and ties is null
            then concat('[', id, ',', case when is_one_kind then 1 else array_position(kinds, kind) end, ',', payload, ']')
            else concat(
              '[', id, ',', array_position(kinds, kind), ',', payload, ',', seq, ',', priority, ',', failed, ',', crashes,
              ',', max_crashes, ',', coalesce(ties::text, 'null'), ']'
            )
          end,
          ','
        ) || ']',
        array_agg(id),
        jsonb_agg(jsonb_build_object('id', id, 'queue', queue, 'kind', kind, 'state', 'running', 'ties', ties))
          filter (where ties ? 'unique')
      into jobs, ids, keyed
      from mine;
      if keyed is not null then
        perform holdfast.job_free_keys(keyed);
      end if;
      passed := array_to_json(reached)::text;
      insert into holdfast.claim (fence, session, token, jobs) values (fence, session, token, ids);
      if announces then
        perform pg_notify(holdfast.job_channel(), 'jobs-busy ' || session);
      end if;
    end if;
    if cardinality(paused) > 0 then
      -- What waits there was not looked at.
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
          and job.ties ? 'unique'
        limit 1
      ) as skipped
    ) then
      -- Whoever enqueues the same key keeps it locked; it must be found when they are done.
      oldest := null;
    end if;
  end
  $$;
comment on function holdfast.job_claim(integer, bigint, bigint[], integer[], bigint[], text[], integer, boolean, boolean) is
  'Claims jobs for a life: at most so many, level by level (queue and priority), each from its cursor onward. Who looks back learns from which number on others may still appear.';

create function holdfast.job_attempt(attempt integer, claimed_at timestamptz, session integer) returns jsonb
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$
    select jsonb_build_object(
      'attempt', attempt,
      'at', clock_timestamp(),
      'claimedAt', claimed_at,
      'instance', (select min(worker.instance) from holdfast.worker where worker.session = job_attempt.session)
    )
  $$;
comment on function holdfast.job_attempt(integer, timestamptz, integer) is
  'What is written down of an attempt that ends now without success: which it was, since when, and in which instance.';

create function holdfast.job_forget(fences bigint[]) returns void
  language plpgsql
  -- One plan, by index, whatever the table looked like when it was made.
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set plan_cache_mode = force_generic_plan
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    -- Whoever asks knows what was answered. A failover may have lost that, and then the claim alone leads to what is left.
    delete from holdfast.claim
    where fence = any(fences)
      and not exists (
        select
        from holdfast.job
        where job.id = any(claim.jobs)
          and (job.fence = claim.fence or job.session is null and job.seq <= claim.upto)
      );
  end
  $$;
comment on function holdfast.job_forget(bigint[]) is
  'Forgets claims of which nothing is left. Where something is left all the same, the life is over, and it is taken over.';

create function holdfast.job_done(
  ids bigint[], fences bigint[], seqs bigint[], results json, emptied bigint[], out recorded bigint[], out loose bigint[]
)
  language plpgsql
  -- One walk over the index for all of them, whatever the table looked like when the plan was made.
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_nestloop = off
  set enable_mergejoin = off
  set plan_cache_mode = force_generic_plan
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    ended bigint;
    tied jsonb;
    -- Only claims by advisory locks know jobs by their places.
    over constant bigint[] := case when cardinality(seqs) > 0 then holdfast.job_over(fences) else '{}' end;
    unstamped bigint[];
    unstamped_fences bigint[];
  begin
    if results is null then
      with claimed as materialized (
        -- What is not on the rows of the jobs.
        select fence, session, claimed_at
        from holdfast.claim
        where fence = any(case when cardinality(seqs) > 0 then fences end)
      ),
      ended as (
        delete from holdfast.job
        using unnest(ids, fences, seqs) as e (id, fence, seq)
        where job.id = any(ids)
          and job.id = e.id
          and (job.fence = e.fence or job.session is null and job.seq = e.seq and e.fence <> all(over))
        returning job.*, e.fence as claim
      ),
      kept as (
        insert into holdfast.job_history
          (id, queue, priority, kind, payload, state, enqueued_at, claimed_at, session, fence, failed, crashes, max_crashes,
           progress, log, failures, ties)
        select id, queue, priority, kind, payload, 'done', enqueued_at,
          coalesce(ended.claimed_at, claimed.claimed_at), coalesce(ended.session, claimed.session), claim,
          failed, crashes, max_crashes, progress, log, failures, ties
        from ended
        left join claimed on claimed.fence = ended.claim
      )
      select
        count(*),
        jsonb_agg(jsonb_build_object('id', id, 'queue', queue, 'kind', kind, 'session', session, 'state', 'done', 'ties', ties))
          filter (where ties is not null),
        array_agg(id) filter (where fence is null),
        array_agg(claim) filter (where fence is null)
      into ended, tied, unstamped, unstamped_fences
      from ended;
    else
      with claimed as materialized (
        -- What is not on the rows of the jobs.
        select fence, session, claimed_at
        from holdfast.claim
        where fence = any(case when cardinality(seqs) > 0 then fences end)
      ),
      ended as (
        delete from holdfast.job
        using rows from (unnest(ids), unnest(fences), unnest(seqs), json_array_elements(results)) as e (id, fence, seq, result)
        where job.id = any(ids)
          and job.id = e.id
          and (job.fence = e.fence or job.session is null and job.seq = e.seq and e.fence <> all(over))
        returning job.*, e.fence as claim, e.result
      ),
      kept as (
        insert into holdfast.job_history
          (id, queue, priority, kind, payload, state, result, enqueued_at, claimed_at, session, fence, failed, crashes,
           max_crashes, progress, log, failures, ties)
        select id, queue, priority, kind, payload, 'done', nullif(substr(result::text, 2, length(result::text) - 2), '')::json, enqueued_at,
          coalesce(ended.claimed_at, claimed.claimed_at), coalesce(ended.session, claimed.session), claim,
          failed, crashes, max_crashes, progress, log, failures, ties
        from ended
        left join claimed on claimed.fence = ended.claim
      )
      select
        count(*),
        jsonb_agg(jsonb_build_object('id', id, 'queue', queue, 'kind', kind, 'session', session, 'state', 'done', 'ties', ties))
          filter (where ties is not null),
        array_agg(id) filter (where fence is null),
        array_agg(claim) filter (where fence is null)
      into ended, tied, unstamped, unstamped_fences
      from ended;
    end if;
    if unstamped is not null then
      perform holdfast.job_prove(unstamped, unstamped_fences);
    end if;
    if tied is not null then
      loose := holdfast.job_settle(tied);
    end if;
    if cardinality(emptied) > 0 then
      perform holdfast.job_forget(emptied);
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
comment on function holdfast.job_done(bigint[], bigint[], bigint[], json, bigint[]) is
  'Records that jobs are done, each only for the claim whose fence is still in its row, or which has it at that place by advisory lock, and forgets claims that are emptied. Recorded is null when all were, or else those that were, now or before. What follows for others is loose (see job_tie_up).';

create function holdfast.job_end(
  asked json, unstamped bigint[], emptied bigint[], out recorded bigint[], out loose bigint[]
)
  language plpgsql
  -- One plan, by index, whatever the table looked like when it was made.
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    tied jsonb;
    over constant bigint[] := case when cardinality(unstamped) > 0 then holdfast.job_over(unstamped) else '{}' end;
    unproven bigint[];
    unproven_fences bigint[];
  begin
    -- Numbers are drawn under a transaction id, as in job_enqueue.
    perform pg_current_xact_id();
    -- Locked before it is looked at: somebody may just be cancelling it, and what was cancelled does not come back.
    with e as materialized (
      select
        e.id,
        e.fence,
        e.seq,
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
        as e (id bigint, fence bigint, seq bigint, state text, error jsonb, delay_ms bigint, failed integer)
      join holdfast.job on job.id = e.id
      where job.fence = e.fence
        or job.session is null and job.seq = e.seq and e.fence <> all(over)
      order by e.id
      for update of job
    ),
    ended as (
      delete from holdfast.job
      using e
      where job.id = e.id
        and e.state <> 'returned'
      returning job.*, e.fence as claim, e.state, e.error, e.failure, e.delay_ms, e.failed as failed_now
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
            failure || holdfast.job_attempt(
              failed + crashes + 1,
              coalesce(claimed_at, (select claim.claimed_at from holdfast.claim where claim.fence = ended.claim)),
              coalesce(session, (select claim.session from holdfast.claim where claim.fence = ended.claim))
            )
          )
        end as all_failures
      from ended
    ),
    kept as (
      insert into holdfast.job_history
        (id, queue, priority, kind, payload, state, error, enqueued_at, claimed_at, session, fence, failed, crashes,
         max_crashes, progress, log, failures, ties)
      select id, queue, priority, kind, payload, state, error, enqueued_at,
        coalesce(claimed_at, (select claim.claimed_at from holdfast.claim where claim.fence = told.claim)),
        coalesce(session, (select claim.session from holdfast.claim where claim.fence = told.claim)), claim,
        failed + failed_now, crashes, max_crashes, progress, log, all_failures, ties
      from told
      where state <> 'retried'
      returning id
    ),
    retried as (
      insert into holdfast.waiting
        (id, queue, priority, kind, payload, enqueued_at, run_at, failed, crashes, max_crashes, log, failures, ties)
      select id, queue, priority, kind, payload, enqueued_at,
        clock_timestamp() + make_interval(secs => delay_ms / 1000.0), failed + failed_now, crashes, max_crashes, log,
        all_failures, ties
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
      returning job.id, job.queue, e.fence as claim, e.seq is not null as is_unstamped
    ),
    unstamped_ones as (
      select id, claim from told where fence is null
      union all
      select id, claim from returned where is_unstamped
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
          -- To have it run.
          select null from woken where false
        ) as all_of_them
      ),
      (
        select jsonb_agg(
          jsonb_build_object('id', id, 'queue', queue, 'kind', kind, 'session', session, 'state', state, 'ties', ties)
        )
        from told
        where ties is not null
      ),
      (select array_agg(id order by id) from unstamped_ones),
      (select array_agg(claim order by id) from unstamped_ones)
    into recorded, tied, unproven, unproven_fences;
    if unproven is not null then
      perform holdfast.job_prove(unproven, unproven_fences);
    end if;
    if tied is not null then
      loose := holdfast.job_settle(tied);
    end if;
    if cardinality(emptied) > 0 then
      perform holdfast.job_forget(emptied);
    end if;
    recorded := coalesce(recorded, '{}');
  end
  $$;
comment on function holdfast.job_end(json, bigint[], bigint[]) is
  'Ends attempts in any other way, each only for the claim whose fence is still in its row, or which has it at that place by advisory lock (unstamped: the fences of such claims): into the history (done, cancelled, discarded, buried), back to wait (retried) or back to the tail of its queue (returned). One that was cancelled does not come back, but ends so. Answers with those that were; what follows for others is loose (see job_tie_up).';

create function holdfast.job_take_over(session integer) returns integer
  language plpgsql
  -- One plan, by index, whatever the table looked like when it was made.
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    one record;
    taken integer := 0;
    more integer;
    tied jsonb;
  begin
    -- A claim of that life may be under way: then the next round will do.
    if not pg_try_advisory_xact_lock(holdfast.session_class() # 1, session) then
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
          and (job.fence = one.fence or job.session is null and job.seq <= one.upto)
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
              || holdfast.job_attempt(failed + crashes + 1, one.claimed_at, one.session)
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
           max_crashes, progress, log, failures, ties)
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
          enqueued_at, one.claimed_at, one.session, one.fence, failed, crashes + charge, max_crashes, progress, log, all_failures, ties
        from ended
        returning id, queue, kind, state, ties
      ),
      woken as (
        select holdfast.job_wake(queue, count(*)) from back group by queue
      )
      select
        (select count(*) from back) + (select count(*) from kept) + 0 * (select count(*) from woken),
        (
          select jsonb_agg(
            jsonb_build_object('id', id, 'queue', queue, 'kind', kind, 'session', job_take_over.session, 'state', state, 'ties', ties)
          )
          from kept
          where ties is not null
        )
      into more, tied;
      if tied is not null then
        perform holdfast.job_settle(tied);
      end if;
      taken := taken + more;
      delete from holdfast.claim where claim.fence = one.fence;
    end loop;
    select taken + t.moved into taken from holdfast.job_tie_up('{}', '{}', job_take_over.session) as t;
    perform from holdfast.claim where claim.session = job_take_over.session limit 1;
    if found then
      return taken;
    end if;
    perform from holdfast.loose_end where loose_end.session = job_take_over.session limit 1;
    if not found then
      delete from holdfast.worker where worker.session = job_take_over.session;
    end if;
    return taken;
  end
  $$;
comment on function holdfast.job_take_over(integer) is
  'Gives back what a dead life had claimed, a hundred claims at a time: with a crash more to each job that it may have run, and to the history what has crashed too often.';

create function holdfast.job_round(most integer, out due_ms integer, out moved integer)
  language plpgsql
  -- One plan, by index, whatever the table looked like when it was made.
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    dead integer;
    tied bigint[];
  begin
    moved := 0;
    -- Somebody else is at it.
    if not pg_try_advisory_xact_lock(holdfast.session_class() # 2, 0) then
      return;
    end if;
    for dead in
      select distinct worker.session from holdfast.worker where not holdfast.is_present(worker.session)
    loop
      moved := moved + holdfast.job_take_over(dead);
    end loop;
    with due as materialized (
      -- The trace that a job carries holds nothing back.
      select id, coalesce(ties - 'trace' <> '{}', false) as is_tied
      from holdfast.waiting
      where stage = 'time'
        and run_at <= clock_timestamp()
      order by run_at
      limit most
      for update skip locked
    ),
    gone as (
      delete from holdfast.waiting
      where id = any(array(select id from due where not is_tied))
      returning *
    ),
    promoted as (
      insert into holdfast.job
        (id, seq, queue, priority, kind, payload, enqueued_at, failed, crashes, max_crashes, log, failures, ties)
      select id, nextval('holdfast.job_number'), queue, priority, kind, payload, enqueued_at, failed, crashes, max_crashes,
        log, failures, ties
      from (select * from gone order by run_at, id) as in_order
      returning queue
    ),
    woken as (
      select count(*) as jobs, holdfast.job_wake(queue, count(*)) from promoted group by queue
    )
    select
      moved + coalesce((select sum(jobs) from woken), 0),
      (select array_agg(id) from due where is_tied)
    into moved, tied;
    if tied is not null
      or exists (select from holdfast.lane where due_at <= clock_timestamp())
      or exists (select from holdfast.loose_end where session = 0)
    then
      select job_round.moved + t.moved into moved from holdfast.job_tie_up('{}', coalesce(tied, '{}'), 0) as t;
    end if;
    moved := moved + holdfast.job_sweep_keys(most);
    -- In milliseconds, an integer holds 24 days: neither what is due in a month nor what was due a month ago may be more.
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
comment on function holdfast.job_round(integer) is
  'A round of the maintenance, by whoever comes first: takes over from the dead, and lets run what is due, so many at a time. Answers with the time until the next is due, and how many moved.';

create function holdfast.job_days(keep integer) returns void
  language plpgsql
  -- Made by the owner of the schema, whoever works.
  security definer
  set search_path = pg_catalog, pg_temp
  set timezone = 'UTC'
  as $$
  declare
    -- A reader of the history must not make everybody wait who ends a job.
    patience text := set_config('lock_timeout', '200ms', true);
    today constant date := (clock_timestamp() at time zone 'UTC')::date;
    schema constant text := holdfast.job_channel();
    day date;
    past text;
  begin
    if not pg_try_advisory_xact_lock(holdfast.session_class() # 2, 1) then
      return;
    end if;
    for day in select today + n from generate_series(0, 3) as n loop
      continue when to_regclass(format('%I.%I', schema, 'job_history_' || to_char(day, 'YYYYMMDD'))) is not null;
      begin
        execute format(
          'create table %1$I.%2$I (like %1$I.job_history including defaults including constraints including comments)',
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
        -- Some have ended on that day already, and stand in the rest; or somebody reads for long.
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
    delete from holdfast.job_history_rest where ended_at < (today - keep)::timestamptz;
  end
  $$;
comment on function holdfast.job_days(integer) is
  'Makes the tables of the history for today and the days to come, and drops those of days whose time is over.';

-- It runs as the owner, and drops what is older than it is told: not for whoever may merely look.
revoke execute on function holdfast.job_days(integer) from public;

-- Nobody may end a job while the table of the day is being made: that end would fail.
select holdfast.job_days(7);
