-- Functions that every room uses: keys of names, classes of internal locks, fences, generations of the server, and presence.

create or replace function holdfast.lock_key(namespace text, name text) returns bigint
  language sql immutable strict parallel safe
  set search_path = pg_catalog, pg_temp
  as $$
    select ('x' || encode(substr(sha256(convert_to(namespace, 'UTF8') || '\x00'::bytea || convert_to(name, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint
  $$;
comment on function holdfast.lock_key(text, text) is
  'The key of a name, for psql and other languages: select pg_advisory_lock(holdfast.lock_key(''billing'', ''nightly-report'')).';

create or replace function holdfast.pair_key(class integer, object integer) returns bigint
  language sql immutable strict parallel safe
  set search_path = pg_catalog, pg_temp
  as $$ select (class::bigint << 32) | (object::bigint & 4294967295) $$;
comment on function holdfast.pair_key(integer, integer) is 'The key of a (class, object) pair.';

create or replace function holdfast.space_key(namespace text, space text, number integer) returns bigint
  language sql stable strict parallel safe
  set search_path = pg_catalog, pg_temp
  as $$
    select base + space_key.number
    from holdfast.key_space
    where key_space.namespace = space_key.namespace
      and key_space.space = space_key.space
      and space_key.number between 0 and 1048575
  $$;
comment on function holdfast.space_key(text, text, integer) is
  'The key of a number in a registered key space; null when the space is not registered or the number not between 0 and 1048575.';

-- Advisory locks of the two-integer space, which Holdfast keeps for itself: every class is named here, those that need no schema in
-- src/postgres/lock-classes.ts. session_class() alone is the class of presence: a session locks its number as long as it lives.
-- PostgreSQL folds a call with a literal into a constant when it plans. A setting would cost time, so each name carries its schema.
create or replace function holdfast.lock_class(purpose text) returns integer
  language sql immutable parallel safe
  as $$
    select holdfast.session_class() operator(pg_catalog.#) case
      -- Object: the number of a session. A claim shares it; a take-over from the session has it alone.
      when purpose operator(pg_catalog.=) 'claims of a session' then 1
      when purpose operator(pg_catalog.=) 'job maintenance' then 2
      when purpose operator(pg_catalog.=) 'job history' then 3
      -- Object: the low half of the queue's key.
      when purpose operator(pg_catalog.=) 'queue' then 4
      when purpose operator(pg_catalog.=) 'job follow-ups' then 5
      when purpose operator(pg_catalog.=) 'workers' then 6
      -- Object: job_lock_key() of the job.
      when purpose operator(pg_catalog.=) 'job' then 8
      when purpose operator(pg_catalog.=) 'schedule maintenance' then 16
      when purpose operator(pg_catalog.=) 'schedule declarations' then 17
      when purpose operator(pg_catalog.=) 'schedule sweep' then 18
      when purpose operator(pg_catalog.=) 'sequences' then 32
    end
  $$;
comment on function holdfast.lock_class(text) is
  'The class of an internal advisory lock, by its purpose. The object is 0 where the source says nothing else. Null for an unknown purpose.';

create or replace function holdfast.clock_floor() returns bigint
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$ select (extract(epoch from clock_timestamp() - timestamptz '2020-01-01 00:00:00+00') * 1048576)::bigint $$;
comment on function holdfast.clock_floor() is
  'Smallest number that fences and job ids may continue with at this moment: 2^20 for each second since 2020. No server draws as many, so it is larger than all numbers drawn before, also those that a restored backup knows nothing of. Below 2^53 until the year 2292.';

create or replace function holdfast.raise_sequence(sequence regclass, floor bigint, always_ahead boolean) returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    reached bigint;
    -- Others may draw while we decide, and a crash forgets what was drawn and not yet flushed. Both are far fewer.
    ahead bigint := 1048576;
  begin
    -- Without the lock, two callers read the same last value, and the second sets the sequence back to what the first has
    -- passed. A lock of the session, released at the end: a lock of the transaction would last as long as a transaction
    -- of the user.
    perform pg_advisory_lock(holdfast.lock_class('sequences'), 0);
    begin
      -- The first value that a sequence gives out is its last_value, until it is called.
      execute format('select last_value - (not is_called)::integer from %s', sequence) into reached;
      if reached < floor or always_ahead then
        -- Minutes ahead of the clock: the clock was set back, and does not show what a failover or a restore has forgotten.
        if reached > floor + 67108864 then
          ahead := 67108864;
        end if;
        perform setval(sequence, least(greatest(reached, floor) + ahead, seqmax)) from pg_sequence where seqrelid = sequence;
      end if;
    exception
      when others or query_canceled then
        perform pg_advisory_unlock(holdfast.lock_class('sequences'), 0);
        raise;
    end;
    perform pg_advisory_unlock(holdfast.lock_class('sequences'), 0);
    return reached < floor;
  end
  $$;
comment on function holdfast.raise_sequence(regclass, bigint, boolean) is
  'Moves a sequence beyond the floor if it is below the floor, and answers whether it was. With always_ahead: moves it ahead in any case.';

create or replace function holdfast.sequence_positions() returns table (sequence regclass, reached bigint, largest bigint)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    -- An opening runs this under its statement_timeout, in databases of any size: so of large tables only the latest rows are
    -- read, by an index. The number of a latest row is nearly the largest, and callers go far beyond it.
    return query
    select 'holdfast.fence'::regclass, (select last_value - (not is_called)::integer from holdfast.fence), greatest(
      (select fence_floor from holdfast.server_generation),
      (select max(fence) from holdfast.fence_guard where used_on >= (select max(used_on) - 1 from holdfast.fence_guard)),
      (select max(fence) from holdfast.lease),
      (select max(fence) from holdfast.claim),
      (select max(fence) from holdfast.permit),
      (select max(term) from holdfast.election),
      (select max(fence) from (select fence from holdfast.delivery order by expires_at desc limit 1000) as latest),
      (select max(fence) from (select fence from holdfast.share_done order by done_at desc limit 1000) as latest),
      (select max(fence) from (select fence from holdfast.term order by ended_at desc limit 1000) as latest),
      (select max(fence) from (select fence from holdfast.job_history order by id desc limit 1000) as latest),
      (
        select max(latest.fence)
        from holdfast.schedule
        cross join lateral (select fence from holdfast.tick where tick.schedule = schedule.key order by at desc limit 10) as latest
      )
    )
    union all
    select 'holdfast.job_number'::regclass, (select last_value - (not is_called)::integer from holdfast.job_number), holdfast.largest_job_number()
    union all
    select 'holdfast.session'::regclass, (select last_value - (not is_called)::integer from holdfast.session), greatest(
      (select max(session) from holdfast.instance),
      (select max(session) from holdfast.worker),
      (select max(session) from holdfast.claim),
      (select max(session) from holdfast.follow_up),
      (select max(session) from holdfast.schedule_member),
      (select max(session) from (select session from holdfast.delivery order by expires_at desc limit 1000) as latest),
      (
        select max(latest.session)
        from holdfast.schedule
        cross join lateral (select session from holdfast.tick where tick.schedule = schedule.key order by at desc limit 10) as latest
      )
    )
    union all
    select 'holdfast.wait_order'::regclass, (select last_value - (not is_called)::integer from holdfast.wait_order), (select max(wait_order) from holdfast.permit)
    union all
    select 'holdfast.audit_number'::regclass, (select last_value - (not is_called)::integer from holdfast.audit_number), (select max(id) from holdfast.audit);
  end
  $$;
comment on function holdfast.sequence_positions() is
  'For each sequence: the last value, and the largest number in the tables that it numbers. A sequence below it was not copied with its tables, as by logical replication.';

create or replace function holdfast.largest_job_number() returns bigint
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    return greatest(
      (select max(id) from holdfast.job),
      (select max(id) from holdfast.waiting),
      (select max(id) from holdfast.job_history),
      (select max(number) from holdfast.follow_up)
    );
  end
  $$;
comment on function holdfast.largest_job_number() is 'The largest id of a job in the tables; null without any. Relies on their primary keys and on job_history_id.';

create or replace function holdfast.catch_up_sequences() returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    return (
      select coalesce(bool_or(holdfast.raise_sequence(sequence, largest, false)), false)
      from holdfast.sequence_positions()
      where largest > reached
        -- An application may not advance audit_number. Whoever writes the audit does.
        and has_sequence_privilege(sequence, 'update')
    );
  end
  $$;
comment on function holdfast.catch_up_sequences() is
  'Moves each sequence beyond the largest number in its tables, and answers whether one was behind. Safe to run at any time.';

create or replace function holdfast.advance_fence() returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    recorded record;
    system_here bigint;
    timeline_here integer;
    -- The path of a file names the database.
    database_here constant oid := split_part(pg_relation_filepath('holdfast.server_generation'), '/', -2);
    is_copy boolean;
    is_new boolean;
    was_behind boolean := false;
    -- A minute ahead of the clock: this machine's may be that much behind the one on which the last fences were drawn.
    ahead constant bigint := 67108864;
  begin
    -- Until the end of the transaction, so that its commit is flushed: a second crash must not forget the step.
    if current_setting('synchronous_commit') = 'off' then
      perform set_config('synchronous_commit', 'on', true);
    end if;
    begin
      system_here := (select system_identifier from pg_control_system());
      timeline_here := ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::integer;
    exception
      -- Services that hide the control file replicate their storage, and lose no sequence at failover.
      when insufficient_privilege or feature_not_supported or undefined_function then null;
    end;

    if not exists (select from holdfast.server_generation) then
      -- A dump is restored table by table, in the order of their names: the row is about to come, and must not be there then.
      if not exists (select from holdfast.migration) then
        raise exception 'The tables of Holdfast are empty: a restore is under way, or has failed'
          using errcode = 'HF002',
                hint = 'Wait until the restore is complete. If none is under way, restore the backup again.';
      end if;
      -- Somebody has deleted it.
      insert into holdfast.server_generation (system_identifier, timeline, generation)
      select 0, 0, greatest(1, max(instance.generation)) from holdfast.instance
      on conflict on constraint server_generation_pkey do nothing;
    end if;
    -- Concurrent openings take turns, so that one generation begins once. The row is read after the lock was granted.
    perform from holdfast.server_generation for update;
    select server_generation.*, server_generation.xmin as writer into strict recorded from holdfast.server_generation;
    system_here := coalesce(system_here, recorded.system_identifier);
    timeline_here := coalesce(timeline_here, recorded.timeline);
    is_copy := (recorded.system_identifier, recorded.database, recorded.written_by)
        is distinct from (system_here, database_here, recorded.writer)
      or recorded.fence_floor > (select last_value from holdfast.fence);
    is_new := is_copy
      or (recorded.timeline, recorded.started_at) is distinct from (timeline_here, pg_postmaster_start_time())
      or not exists (select from holdfast.crash_witness);
    if not is_new then
      -- Nothing shows that fences were forgotten. Where nothing can show it, as where a whole machine was set back, the clock does.
      if not holdfast.raise_sequence('holdfast.fence', holdfast.clock_floor(), false) then
        return;
      end if;
    else
      if is_copy then
        was_behind := holdfast.catch_up_sequences();
      end if;
      perform holdfast.raise_sequence('holdfast.fence', holdfast.clock_floor() + ahead, true);
      -- The ids of a new installation begin at 1.
      if recorded.generation > 0 or was_behind then
        perform holdfast.raise_sequence('holdfast.job_number', holdfast.clock_floor() + ahead, true);
      end if;
      insert into holdfast.crash_witness default values on conflict on constraint crash_witness_pkey do nothing;
    end if;
    update holdfast.server_generation
    set system_identifier = system_here,
        timeline = timeline_here,
        started_at = pg_postmaster_start_time(),
        database = database_here,
        fence_floor = (select last_value from holdfast.fence),
        generation = server_generation.generation + is_new::integer,
        began_at = case when is_new then clock_timestamp() else server_generation.began_at end;
    -- Not pg_current_xact_id(), which is another number inside a savepoint.
    update holdfast.server_generation set written_by = server_generation.xmin;
  end
  $$;
comment on function holdfast.advance_fence() is
  'Keeps the fences ahead of all that a crash, a failover, a restore or an upgrade may have forgotten, and begins a new generation where one of these has happened. Called whenever an instance opens or reconnects.';

create or replace function holdfast.guard_key(key bigint, fence bigint, session integer default null) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    insert into holdfast.fence_guard as known (key, fence) values (guard_key.key, guard_key.fence)
    on conflict on constraint fence_guard_pkey do update
    set fence = excluded.fence,
        used_on = excluded.used_on
    where known.fence <= excluded.fence;
    if not found then
      raise exception 'The fence % of key % is stale: a later holder has written already', guard_key.fence, guard_key.key
        using errcode = 'HF001';
    end if;
    -- Whoever can take the number of the holder's session has proven that this session is gone.
    if session is not null and pg_try_advisory_xact_lock_shared(holdfast.session_class(), session) then
      raise exception 'The fence % of key % is stale: the session that held it is gone', guard_key.fence, guard_key.key
        using errcode = 'HF001';
    end if;
  end
  $$;
comment on function holdfast.guard_key(bigint, bigint, integer) is
  'Refuses (HF001) the writes of a stale holder of a key, in the transaction of those writes. Stale: a larger fence was used before, or the session that held it is gone.';

create or replace function holdfast.guard(namespace text, name text, fence bigint, session integer default null) returns void
  language sql
  set search_path = pg_catalog, pg_temp
  as $$ select holdfast.guard_key(holdfast.lock_key(namespace, name), fence, session) $$;
comment on function holdfast.guard(text, text, bigint, integer) is
  'Refuses (HF001) the writes of a stale holder of a name, in the transaction of those writes: select holdfast.guard(''billing'', ''nightly-report'', 1048577).';

create or replace function holdfast.noticed_generation() returns integer
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    -- A standby has no unlogged tables, and refuses the query below with an error of its own. Without a generation the caller tries to
    -- begin one, which fails as a write does there.
    if pg_is_in_recovery() then
      return null;
    end if;
    return (
      select server_generation.generation
      from holdfast.server_generation
      where started_at = pg_postmaster_start_time()
        and written_by = xmin
        -- The path of a file names the database, and takes no look at pg_database, which may be large.
        and database = split_part(pg_relation_filepath('holdfast.server_generation'), '/', -2)::oid
        and fence_floor <= (select last_value from holdfast.fence)
        and exists (select from holdfast.crash_witness)
    );
  end
  $$;
comment on function holdfast.noticed_generation() is
  'The generation of the server (see server_generation). Null until advance_fence() has noticed a restart, a crash, a failover or a restore: until then the sequences may be behind.';

create or replace function holdfast.generation_began() returns text
  language plpgsql
  set search_path = pg_catalog, pg_temp
  -- Part of the heartbeat, which must not wait for somebody who has locked the table.
  set lock_timeout = '200ms'
  as $$
  begin
    return (select began_at::text from holdfast.server_generation where holdfast.noticed_generation() is not null);
  end
  $$;
comment on function holdfast.generation_began() is
  'When the generation was noticed; null until then. A session sees it change only when the tables were restored while it lived.';

create or replace function holdfast.generation() returns integer
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    noticed integer := holdfast.noticed_generation();
  begin
    if noticed is null then
      perform holdfast.advance_fence();
      noticed := (select server_generation.generation from holdfast.server_generation);
    end if;
    return noticed;
  end
  $$;
comment on function holdfast.generation() is
  'The generation of the server (see server_generation), also when nobody has noticed its beginning before.';

create or replace function holdfast.grace_is_over_in(generation integer) returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
  strict
  as $$
  begin
    return not exists (
      select
      from holdfast.server_generation
      join holdfast.instance on instance.generation < grace_is_over_in.generation
      where clock_timestamp() < server_generation.began_at + make_interval(secs => instance.expiry_ms / 1000.0)
    );
  end
  $$;
comment on function holdfast.grace_is_over_in(integer) is
  'The same as grace_is_over() for a generation that is known already. For transactions of the user, where to notice one would lock a row that everybody needs.';

create or replace function holdfast.grace_is_over() returns boolean
  language plpgsql
  as $$
  begin
    return holdfast.grace_is_over_in(holdfast.generation());
  end
  $$;
comment on function holdfast.grace_is_over() is
  'False for a while after a restart, crash or failover: somebody who was cut off then may still believe in what is gone. Ask it before any grant, and draw the fence after it.';

-- What a statement sees may be older than the moment in which it looks at the clock: on a busy server by so long that what
-- it sees as over was renewed, and the renewal answered, in between. So the clock is asked first: what is over then, as
-- seen by a statement that begins later, has been renewed in time by nobody who heard of it. Where the transaction sees the
-- past, its beginning is the moment. In a statement of its own in PL/pgSQL, before the one that looks.
create or replace function holdfast.expiry_clock() returns timestamptz
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    return case current_setting('transaction_isolation') when 'read committed' then clock_timestamp() else now() end;
  end
  $$;
comment on function holdfast.expiry_clock() is
  'The time, to judge by what the next statement sees whether something is over.';

create or replace function holdfast.is_present(session integer) returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    checked_at timestamptz;
  begin
    if not pg_try_advisory_xact_lock_shared(holdfast.session_class(), session) then
      return true;
    end if;
    checked_at := holdfast.expiry_clock();
    return exists (
      select
      from holdfast.instance
      where instance.session = is_present.session
        and expires_at > checked_at
    );
  end
  $$;
comment on function holdfast.is_present(integer) is
  'Whether the instance whose present epoch has this number is alive: a session vouches for it, or its row has not expired. Not to be asked on the session that vouches: a session does not exclude itself.';
