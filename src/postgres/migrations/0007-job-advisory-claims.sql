-- Claims by advisory locks, which write nothing on the rows of jobs: the session of the worker's anchor locks each job
-- that it has claimed until its end is recorded, and a claim's row says which they are. src/jobs/README.md has the proof.

create function holdfast.job_class() returns integer
  language sql immutable parallel safe
  as $$ select holdfast.session_class() operator(pg_catalog.#) 8 $$;
comment on function holdfast.job_class() is
  'The class, in the space of two integers, of the locks on jobs that were claimed by advisory lock.';

create function holdfast.job_lock_key(id bigint) returns integer
  language sql immutable strict parallel safe
  as $$ select id::bit(32)::integer $$;
comment on function holdfast.job_lock_key(bigint) is
  'Which lock of the class job_class() is that of a job: the low half of its id. Two jobs 2^32 apart share one, and only wait for each other.';

create function holdfast.job_locks() returns table (pid integer, class integer, object bigint)
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select pid, classid::bigint::bit(32)::integer, objid::bigint
    from pg_locks
    where locktype = 'advisory'
      and database = (select oid from pg_database where datname = current_database())
      and classid in ((holdfast.job_class()::bigint & 4294967295)::oid, (holdfast.session_class()::bigint & 4294967295)::oid)
      and objsubid = 2
      and mode = 'ExclusiveLock'
      and granted
  $$;
comment on function holdfast.job_locks() is
  'The locks on jobs and those that vouch for sessions, as they are at one moment: PostgreSQL shows its lock table whole and consistent.';

create function holdfast.job_look(
  queues bigint[],
  priorities integer[],
  cursors bigint[],
  kinds text[],
  most integer,
  looks_back boolean,
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
    more text;
    found_here integer;
    upto bigint;
    reached bigint[] := cursors;
    short integer := most;
  begin
    if looks_back then
      -- Before the look: what was running then may not be visible to it.
      oldest := pg_snapshot_xmin(pg_current_snapshot())::text;
      -- As in job_claim.
      last := (select last_value - (not is_called)::integer from holdfast.job_number);
      newest := pg_current_xact_id()::text;
    end if;
    paused := array(select key from holdfast.queue where key = any(queues) and paused_at is not null);
    for level in 1 .. cardinality(queues) loop
      continue when queues[level] = any(paused);
      select
        string_agg(
          case
            when seq = id and priority = 0 and failed = 0 and crashes = 0 and max_crashes = 3 and ties is null and cancelled is null
            then concat('[', id, ',', array_position(kinds, kind), ',', payload, ']')
            else concat(
              '[', id, ',', array_position(kinds, kind), ',', payload, ',', seq, ',', priority, ',', failed, ',', crashes,
              ',', max_crashes, ',', coalesce(ties::text, 'null'), ',', coalesce(to_json(cancelled)::text, 'null'), ',', version, ']'
            )
          end,
          ','
        ),
        max(seq),
        count(*)
      into more, upto, found_here
      from (
        select id, seq, priority, kind, payload, failed, crashes, max_crashes, ties, cancelled, job.xmin as version
        from holdfast.job
        where job.queue = queues[level]
          and job.priority = priorities[level]
          and job.seq > cursors[level]
          and job.session is null
          and job.kind = any(kinds)
          -- What somebody has. It is asked for once, and only if there is any job.
          and (job.id & 4294967295) not in (select object from holdfast.job_locks() where class = holdfast.job_class())
        order by job.seq
        limit short
      ) as ready;
      continue when more is null;
      jobs := concat_ws(',', jobs, more);
      reached[level] := upto;
      short := short - found_here;
      exit when short <= 0;
    end loop;
    jobs := '[' || jobs || ']';
    passed := array_to_json(reached)::text;
    if cardinality(paused) > 0 then
      oldest := null;
    end if;
  end
  $$;
comment on function holdfast.job_look(bigint[], integer[], bigint[], text[], integer, boolean) is
  'Which jobs might be claimed by advisory lock: reads as job_claim does, and takes nothing.';

create function holdfast.job_take(
  session integer,
  token bigint,
  ids bigint[],
  seqs bigint[],
  versions bigint[],
  announces boolean,
  out state text,
  out fence bigint,
  out jobs text,
  out lives integer,
  out has_orphans boolean
)
  language plpgsql
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set plan_cache_mode = force_generic_plan
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    locked bigint[];
    places bigint[];
    versions_seen bigint[];
    keyed jsonb;
    more_keyed jsonb;
    dead integer[];
    orphans bigint[] := '{}';
    ours bigint[];
    upto bigint;
  begin
    state := 'unsettled';
    if not holdfast.is_settled() then
      return;
    end if;
    perform from holdfast.worker where worker.session = job_take.session limit 1;
    state := 'gone';
    if not found then
      return;
    end if;
    state := 'claimed';
    -- Each once, and none that is dropped afterwards without being unlocked.
    with tried as materialized (
      select id, seq, version, pg_try_advisory_lock(holdfast.job_class(), holdfast.job_lock_key(id)) as is_ours
      from unnest(ids, seqs, versions) as asked (id, seq, version)
    )
    select coalesce(array_agg(id), '{}'), coalesce(array_agg(seq), '{}'), coalesce(array_agg(version), '{}')
    into locked, places, versions_seen
    from tried
    where is_ours;
    -- Whoever had one of them before is dead by now. What the dead had is nobody's until they are charged with it.
    select
      coalesce(array_agg(distinct worker.session) filter (where not holdfast.is_present(worker.session)), '{}'),
      count(distinct worker.session)
    into dead, lives
    from holdfast.worker
    where worker.claims = 'advisory'
      and worker.session <> job_take.session;
    lives := lives + 1;
    if cardinality(dead) > 0 then
      orphans := array(select unnest(claim.jobs) from holdfast.claim where claim.session = any(dead));
      has_orphans := orphans && locked;
    end if;
    -- Looked at again, now that they are locked: they may have ended, or come back with another place, or another input.
    select
      coalesce(array_agg(job.id), '{}'),
      max(job.seq),
      jsonb_agg(jsonb_build_object('id', job.id, 'queue', queue, 'kind', kind, 'state', 'running', 'ties', ties))
        filter (where ties ? 'unique')
    into ours, upto, keyed
    from unnest(locked, places, versions_seen) as mine (id, seq, version)
    join holdfast.job on job.id = mine.id and job.seq = mine.seq
    where job.session is null
      and (mine.version is null or job.xmin::text::bigint = mine.version)
      -- Nobody is just ending it, or has tried to.
      and job.xmax = 0
      and job.id <> all(orphans);
    if cardinality(ours) < cardinality(locked) then
      with doubtful as (
        select job.id, job.seq, job.queue, job.kind, job.ties
        from unnest(locked, places, versions_seen) as mine (id, seq, version)
        join holdfast.job on job.id = mine.id and job.seq = mine.seq
        where job.session is null
          and (mine.version is null or job.xmin::text::bigint = mine.version)
          and job.xmax <> 0
          and job.id <> all(orphans)
          and job.id <> all(ours)
        for update of job skip locked
      )
      select
        ours || coalesce(array_agg(id), '{}'),
        greatest(upto, max(seq)),
        jsonb_agg(jsonb_build_object('id', id, 'queue', queue, 'kind', kind, 'state', 'running', 'ties', ties))
          filter (where ties ? 'unique')
      into ours, upto, more_keyed
      from doubtful;
      keyed := coalesce(keyed || more_keyed, keyed, more_keyed);
      perform pg_advisory_unlock(holdfast.job_class(), holdfast.job_lock_key(id))
      from unnest(locked) as id
      where id <> all(ours);
    end if;
    if cardinality(ours) > 0 then
      -- Drawn while they are locked, so that whoever claims one of them after us has a larger one.
      fence := nextval('holdfast.fence');
      insert into holdfast.claim (fence, session, token, jobs, upto) values (fence, session, token, ours, upto);
      if keyed is not null then
        perform holdfast.job_free_keys(keyed);
      end if;
      if announces then
        perform pg_notify(holdfast.job_channel(), 'jobs-busy ' || session);
      end if;
      jobs := array_to_json(ours)::text;
    end if;
  end
  $$;
comment on function holdfast.job_take(integer, bigint, bigint[], bigint[], bigint[], boolean) is
  'Claims jobs for a life by locks of its session, on which alone it may run: those of the jobs that nobody else has and that still are where, and as, they were seen (versions: null for those that nobody changes while they wait). Says how many lives claim so, and whether some were left out because a dead life had them.';

create function holdfast.job_over(fences bigint[]) returns bigint[]
  language plpgsql
  set jit = off
  set enable_seqscan = off
  set plan_cache_mode = force_generic_plan
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    return array(select fence from holdfast.claim where fence = any(fences) and not holdfast.is_present(session));
  end
  $$;
comment on function holdfast.job_over(bigint[]) is 'Those of the claims whose life is over.';

create function holdfast.job_prove(ids bigint[], fences bigint[]) returns void
  language plpgsql
  set jit = off
  set enable_seqscan = off
  -- It knows nothing of how many locks there are, and any loop over them would be long.
  set enable_nestloop = off
  set plan_cache_mode = force_generic_plan
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    perform
    from (
      with held as materialized (
        select * from holdfast.job_locks()
      ),
      claimed as materialized (
        select fence, session from holdfast.claim where fence = any(fences)
      )
      select id & 4294967295 as object, session
      from unnest(ids, fences) as asked (id, fence)
      left join claimed using (fence)
      except
      select job.object, life.object::integer
      from held as job
      join held as life using (pid)
      where job.class = holdfast.job_class()
        and life.class = holdfast.session_class()
    ) as unproven;
    if found then
      raise exception 'The life that had claimed these jobs is over'
        using errcode = 'serialization_failure';
    end if;
  end
  $$;
comment on function holdfast.job_prove(bigint[], bigint[]) is
  'Fails unless each of the jobs, whose rows are locked, is still locked by the session that vouches for the life of its claim. As a failure of serialization: asked again, the claim is found to be over.';

create function holdfast.job_at_rest(id bigint) returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    return pg_try_advisory_xact_lock_shared(holdfast.job_class(), holdfast.job_lock_key(id));
  end
  $$;
comment on function holdfast.job_at_rest(bigint) is
  'Whether nobody has the job by advisory lock. Then nobody can claim it so until the end of this transaction.';

create function holdfast.job_held() returns table (id bigint, session integer, claimed_at timestamptz, upto bigint)
  language sql stable
  set search_path = pg_catalog, pg_temp
  set jit = off
  as $$
    select distinct on (job) job, session, claimed_at, upto
    from holdfast.claim
    cross join lateral unnest(jobs) as claimed (job)
    where upto is not null
    order by job, fence desc
  $$;
comment on function holdfast.job_held() is
  'Jobs that are claimed by advisory lock, on whose rows nothing is written; for those who look. One that has come back since has a seq above upto, and is not meant.';

create function holdfast.job_enlist(
  session integer,
  number integer,
  instance text,
  queues bigint[],
  kinds text[],
  claims text,
  out other_instance text,
  out other_queue bigint
)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    -- Two of different ways must not both miss each other.
    perform pg_advisory_xact_lock(holdfast.session_class() # 2, 8);
    select
      worker.instance,
      (select key from unnest(worker.queues) as key where key = any(job_enlist.queues) limit 1)
    into other_instance, other_queue
    from holdfast.worker
    where worker.claims <> job_enlist.claims
      and worker.queues && job_enlist.queues
    limit 1;
    if not found then
      insert into holdfast.worker (session, number, instance, queues, kinds, claims)
      values (job_enlist.session, job_enlist.number, job_enlist.instance, job_enlist.queues, job_enlist.kinds, job_enlist.claims)
      on conflict on constraint worker_pkey do update set queues = excluded.queues, kinds = excluded.kinds;
    end if;
  end
  $$;
comment on function holdfast.job_enlist(integer, integer, text, bigint[], text[], text) is
  'The life begins to work, unless somebody claims jobs of the same queue in the other way, or died doing so and has not been taken over: then it answers with an instance and a queue. The two ways do not see each other''s claims.';
