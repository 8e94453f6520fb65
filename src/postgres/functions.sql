-- Functions that all modules share. They handle name keys, internal lock classes, fences, server generations, and presence.

create or replace function holdfast.lock_key(namespace text, name text) returns bigint
  language plpgsql immutable parallel safe
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    -- pg_advisory_lock(null) returns without a lock.
    if namespace is null or name is null then
      raise exception 'Expected a namespace and a name, got % and %', coalesce(quote_literal(namespace), 'null'), coalesce(quote_literal(name), 'null')
        using errcode = '22023';
    end if;
    return ('x' || encode(substr(sha256(convert_to(namespace, 'UTF8') || '\x00'::bytea || convert_to(name, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint;
  end
  $$;
comment on function holdfast.lock_key(text, text) is
  'Returns the key of a name, for psql and other languages: select pg_advisory_lock(holdfast.lock_key(''billing'', ''nightly-report'')).';

create or replace function holdfast.pair_key(class integer, object integer) returns bigint
  language sql immutable strict parallel safe
  set search_path = pg_catalog, pg_temp
  as $$ select (class::bigint << 32) | (object::bigint & 4294967295) $$;
comment on function holdfast.pair_key(integer, integer) is 'Returns the key of a (class, object) pair.';

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
  'Returns the key of a number in a registered key space. Null if the space is not registered or the number is not between 0 and 1048575.';

-- All classes of internal advisory locks (in the two-integer key space), except the classes in lock-classes.ts, which are needed before the
-- schema exists. session_class() returns the class for presence: each session holds a lock on its session number. PostgreSQL evaluates a
-- call with a literal at plan time. A set clause would prevent this, so the function has no set clause and qualifies each name with its
-- schema.
create or replace function holdfast.lock_class(purpose text) returns integer
  language sql immutable parallel safe
  as $$
    select holdfast.session_class() operator(pg_catalog.#) case
      -- The lock's object is a session number. Each claim holds a shared lock. A takeover of the session's claims requires an exclusive
      -- lock.
      when purpose operator(pg_catalog.=) 'claims of a session' then 1
      when purpose operator(pg_catalog.=) 'job maintenance' then 2
      when purpose operator(pg_catalog.=) 'job history' then 3
      -- The lock's object is the low 32 bits of the queue's key.
      when purpose operator(pg_catalog.=) 'queue' then 4
      when purpose operator(pg_catalog.=) 'job follow-ups' then 5
      -- The lock's object is the low 32 bits of the queue's key.
      when purpose operator(pg_catalog.=) 'job claims' then 6
      -- The lock's object is the low 32 bits of the job's id.
      when purpose operator(pg_catalog.=) 'job events' then 7
      when purpose operator(pg_catalog.=) 'schedule maintenance' then 16
      when purpose operator(pg_catalog.=) 'schedule declarations' then 17
      when purpose operator(pg_catalog.=) 'schedule sweep' then 18
      -- The lock's object is a hash of the namespace.
      when purpose operator(pg_catalog.=) 'stored schedules' then 19
      when purpose operator(pg_catalog.=) 'sequences' then 32
      -- The lock's object is a hash of the namespace and the name.
      when purpose operator(pg_catalog.=) 'instance names' then 33
    end
  $$;
comment on function holdfast.lock_class(text) is
  'Returns an internal advisory lock''s class, by its purpose. Null for an unknown purpose. The lock''s object is 0 unless the source code specifies another object.';

create or replace function holdfast.clock_floor() returns bigint
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$ select (extract(epoch from clock_timestamp() - timestamptz '2020-01-01 00:00:00+00') * 1048576)::bigint $$;
comment on function holdfast.clock_floor() is
  'Returns the smallest number with which fences and job ids may continue now: 2^20 for each second since 2020. No server allocates numbers that fast, so this number exceeds all earlier numbers, even those that a restored backup does not contain. Below 2^53 until the year 2292.';

create or replace function holdfast.last_number(sequence regclass) returns bigint
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    last bigint;
  begin
    -- Before a sequence is used for the first time, its last_value is the next number.
    execute format('select last_value - (not is_called)::integer from %s', sequence) into last;
    return last;
  end
  $$;
comment on function holdfast.last_number(regclass) is
  'Returns the last number that a sequence has issued. Returns the first number minus 1 if the sequence has issued none.';

create or replace function holdfast.raise_sequence(sequence regclass, floor bigint, always_ahead boolean) returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    reached bigint;
    -- The margin exceeds the count of numbers that other sessions allocate in the meantime, and of numbers that a crash loses because they
    -- were not flushed.
    ahead bigint := 1048576;
  begin
    -- Without the lock, this race is possible: A and B read the same last value. A moves the sequence ahead, other sessions allocate
    -- numbers, then B moves the sequence back. The lock is a session lock, because a transaction lock would last until the end of the
    -- user's transaction.
    perform pg_advisory_lock(holdfast.lock_class('sequences'), 0);
    begin
      reached := holdfast.last_number(sequence);
      if reached < floor or always_ahead then
        -- The sequence is minutes ahead of the clock. So the clock was set back, and does not indicate how many numbers a failover or
        -- restore has lost.
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
  'Moves a sequence beyond the floor if the sequence is below the floor. Returns whether the sequence was below the floor. With always_ahead, always moves the sequence ahead.';

create or replace function holdfast.postgres_largest_numbers() returns table (sequence regclass, largest bigint)
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select 'holdfast.fence'::regclass, greatest(
      (select fence_floor from holdfast.server_generation),
      (select max(fence) from holdfast.fence_guard where used_on >= (select max(used_on) - 1 from holdfast.fence_guard))
    )
    union all
    select 'holdfast.session'::regclass, max(session) from holdfast.instance
  $$;
comment on function holdfast.postgres_largest_numbers() is
  'Returns the largest number from each sequence in this module''s tables. See sequence_positions().';

-- A module whose tables contain numbers from sequences defines the function <module>_largest_numbers() in its functions.sql. The function
-- returns one row per sequence. It runs within the statement_timeout of an instance that is opening, so it reads only the latest rows of
-- large tables, through an index. The numbers in these rows are close to the largest number, and callers add a large margin.
create or replace function holdfast.sequence_positions() returns table (sequence regclass, reached bigint, largest bigint)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    all_modules text;
  begin
    -- The cast to regprocedure qualifies and quotes the name of the function.
    select string_agg(format('select * from %s', pg_proc.oid::regprocedure), ' union all ')
    into all_modules
    from pg_proc
    join pg_class on relnamespace = pronamespace
    where pg_class.oid = 'holdfast.fence'::regclass
      and proname ~ '_largest_numbers$';
    for sequence, largest in
      execute format('select numbers.sequence, max(numbers.largest) from (%s) as numbers group by numbers.sequence', all_modules)
    loop
      -- The tables are read before the sequence. In the opposite order, this race is possible: this function reads the sequence. Then
      -- another session allocates a number and commits it. Then this function reads that number and reports the sequence as behind.
      reached := holdfast.last_number(sequence);
      return next;
    end loop;
  end
  $$;
comment on function holdfast.sequence_positions() is
  'Returns, for each sequence, its last value and the largest number in its tables. If a sequence is below that number, it was not copied together with its tables, for example by logical replication.';

create or replace function holdfast.catch_up_sequences() returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    return (
      select coalesce(bool_or(holdfast.raise_sequence(sequence, largest, false)), false)
      from holdfast.sequence_positions()
      where largest > reached
        -- The application role has no privilege on audit_number. The roles that write the audit log advance this sequence.
        and has_sequence_privilege(sequence, 'update')
    );
  end
  $$;
comment on function holdfast.catch_up_sequences() is
  'Moves each sequence beyond the largest number in its tables. Returns whether any sequence was behind. Safe to run at any time.';

create or replace function holdfast.system_identifier() returns bigint
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    return (select system_identifier from pg_control_system());
  exception
    -- Database services that hide the control file replicate their storage, so a failover loses no sequence values.
    when insufficient_privilege or feature_not_supported or undefined_function then
      return null;
  end
  $$;
comment on function holdfast.system_identifier() is 'Returns the cluster''s identifier. Null if it is not readable.';

create or replace function holdfast.is_another_cluster() returns boolean
  -- Stable, so that the function reads the same version of the row as the statement that calls it. A volatile function would take a snapshot
  -- of its own. Then this race is possible: job_era() reads the era. advance_fence() commits the next era. The function reads its row and
  -- returns false, so job_era() returns the earlier era, and no claim finds the new job.
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select (system_identifier, database, written_by) is distinct from (
      coalesce(holdfast.system_identifier(), system_identifier),
      -- A table's file path contains the oid of its database.
      split_part(pg_relation_filepath('holdfast.server_generation'), '/', -2)::oid,
      xmin
    )
    from holdfast.server_generation
  $$;
comment on function holdfast.is_another_cluster() is
  'Returns whether the tables were restored or copied since the row in server_generation was written. If so, advance_fence() begins another '
  'era.';

create or replace function holdfast.advance_fence() returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    recorded record;
    system_here bigint;
    timeline_here integer;
    -- A table's file path contains the oid of its database.
    database_here constant oid := split_part(pg_relation_filepath('holdfast.server_generation'), '/', -2);
    is_elsewhere boolean;
    is_copy boolean;
    is_new boolean;
    was_behind boolean := false;
    -- The margin corresponds to 64 seconds of clock_floor(), because this machine's clock may be that far behind the previous server's
    -- clock.
    ahead constant bigint := 67108864;
  begin
    -- The setting applies until the transaction ends. The commit is therefore flushed to disk, and a second crash cannot undo the commit.
    if current_setting('synchronous_commit') = 'off' then
      perform set_config('synchronous_commit', 'on', true);
    end if;
    begin
      timeline_here := ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::integer;
    exception
      when insufficient_privilege or feature_not_supported or undefined_function then null;
    end;

    if not exists (select from holdfast.server_generation) then
      -- A restore fills the tables in alphabetical order. If this function inserted the row now, the restore's own insert would fail.
      if not exists (select from holdfast.migration) then
        raise exception 'The tables of Holdfast are empty: a restore is under way, or has failed'
          using errcode = 'HF002',
                hint = 'Wait until the restore is complete. If none is under way, restore the backup again.';
      end if;
      -- The row is missing only if it was deleted manually.
      insert into holdfast.server_generation (system_identifier, timeline, generation)
      select 0, 0, greatest(1, max(instance.generation)) from holdfast.instance
      on conflict on constraint server_generation_pkey do nothing;
    end if;
    -- The row lock serializes concurrent openings, so that each generation begins only once. The values are read after the lock has been
    -- granted.
    perform from holdfast.server_generation for update;
    select server_generation.* into strict recorded from holdfast.server_generation;
    system_here := coalesce(holdfast.system_identifier(), recorded.system_identifier);
    timeline_here := coalesce(timeline_here, recorded.timeline);
    is_elsewhere := holdfast.is_another_cluster();
    is_copy := is_elsewhere or recorded.fence_floor > (select last_value from holdfast.fence);
    is_new := is_copy
      or (recorded.timeline, recorded.started_at) is distinct from (timeline_here, pg_postmaster_start_time())
      or not exists (select from holdfast.crash_witness);
    if not is_new then
      -- Nothing indicates that fences were lost. If a whole machine was reset to an earlier state (a VM snapshot), only the clock reveals
      -- the loss.
      if not holdfast.raise_sequence('holdfast.fence', holdfast.clock_floor(), false) then
        return;
      end if;
    else
      if is_copy then
        was_behind := holdfast.catch_up_sequences();
      end if;
      perform holdfast.raise_sequence('holdfast.fence', holdfast.clock_floor() + ahead, true);
      -- A new installation skips this step, because its job ids begin at 1.
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
        era = server_generation.era + is_elsewhere::integer,
        began_at = case when is_new then clock_timestamp() else server_generation.began_at end;
    -- The statement reads xmin instead of pg_current_xact_id(), because the two values differ inside a savepoint.
    update holdfast.server_generation set written_by = server_generation.xmin;
  end
  $$;
comment on function holdfast.advance_fence() is
  'Moves the fences ahead of all numbers that a crash, a failover, a restore or an upgrade may have lost, and begins a new generation after such an event. Called when an instance opens or reconnects.';

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
      raise exception 'The fence % of key % is stale: a later holder has already written', guard_key.fence, guard_key.key
        using errcode = 'HF001';
    end if;
    -- If this transaction acquires the lock on the session number, the holder's session has ended.
    if session is not null and pg_try_advisory_xact_lock_shared(holdfast.session_class(), session) then
      raise exception 'The fence % of key % is stale: the session that held it is gone', guard_key.fence, guard_key.key
        using errcode = 'HF001';
    end if;
  end
  $$;
comment on function holdfast.guard_key(bigint, bigint, integer) is
  'Raises HF001 for a stale holder of a key, so that the transaction with its writes rolls back. A holder is stale if a larger fence was already used, or if the holder''s session has ended.';

create or replace function holdfast.guard(namespace text, name text, fence bigint, session integer default null) returns void
  language sql
  set search_path = pg_catalog, pg_temp
  as $$ select holdfast.guard_key(holdfast.lock_key(namespace, name), fence, session) $$;
comment on function holdfast.guard(text, text, bigint, integer) is
  'Raises HF001 for a stale holder of a name, so that the transaction with its writes rolls back: select holdfast.guard(''billing'', ''nightly-report'', 1048577).';

create or replace view holdfast.noticed_server as
  select generation, era, began_at
  from holdfast.server_generation
  where started_at = pg_postmaster_start_time()
    and written_by = xmin
    -- A table's file path contains the oid of its database. Reading the oid from pg_database could be slow, because pg_database may be
    -- large.
    and database = split_part(pg_relation_filepath('holdfast.server_generation'), '/', -2)::oid
    and fence_floor <= (select last_value from holdfast.fence)
    and exists (select from holdfast.crash_witness);
comment on view holdfast.noticed_server is
  'The row in server_generation. Empty after a restart, a crash, a failover or a restore until advance_fence() has detected it. A standby cannot read this view, because it cannot read unlogged tables.';
comment on column holdfast.noticed_server.era is 'Number of the cluster. See server_generation.';
comment on column holdfast.noticed_server.began_at is 'Time when the generation was detected.';

create or replace view holdfast.settled_server as
  select noticed.generation, noticed.era
  from holdfast.noticed_server as noticed
  where not exists (
    select
    from holdfast.instance
    where instance.generation < noticed.generation
      and clock_timestamp() < noticed.began_at + make_interval(secs => instance.expiry_ms / 1000.0)
  );
comment on view holdfast.settled_server is
  'The row in server_generation. Empty until the grace period is over. See grace_is_over().';

create or replace function holdfast.noticed_generation() returns integer
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    -- A standby cannot read unlogged tables, so the function returns null. The caller then tries to begin a generation, which fails because
    -- a standby rejects writes.
    if pg_is_in_recovery() then
      return null;
    end if;
    return (select noticed_server.generation from holdfast.noticed_server);
  end
  $$;
comment on function holdfast.noticed_generation() is
  'Returns the server''s generation (see server_generation). Null after a restart, a crash, a failover or a restore until advance_fence() has detected it. Until then the sequences may be behind.';

create or replace function holdfast.generation_began() returns text
  language plpgsql
  set search_path = pg_catalog, pg_temp
  -- This function is part of the heartbeat, which must not wait for a table lock.
  set lock_timeout = '200ms'
  as $$
  begin
    if pg_is_in_recovery() then
      return null;
    end if;
    -- A timestamp as text would change with the settings TimeZone and DateStyle.
    return (select extract(epoch from began_at)::text from holdfast.noticed_server);
  end
  $$;
comment on function holdfast.generation_began() is
  'Returns the time when the generation was detected, in seconds since 1970. Null until then. It changes during a session only if the tables were restored.';

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
  'Returns the server''s generation (see server_generation). Begins a new generation if necessary.';

create or replace function holdfast.grace_is_over_in(generation integer) returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
  strict
  as $$
  begin
    return exists (select from holdfast.settled_server where settled_server.generation = grace_is_over_in.generation);
  end
  $$;
comment on function holdfast.grace_is_over_in(integer) is
  'Like grace_is_over(), but for a known generation. Used in the user''s transactions, because beginning a generation there would lock a '
  'row that all instances need.';

create or replace function holdfast.grace_is_over() returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    -- A standby cannot read the view, and cannot even plan an expression that contains it. generation() then fails with the reason.
    if not pg_is_in_recovery() then
      if exists (select from holdfast.settled_server) then
        return true;
      end if;
    end if;
    perform holdfast.generation();
    return exists (select from holdfast.settled_server);
  end
  $$;
comment on function holdfast.grace_is_over() is
  'Returns false during the grace period after a restart, crash or failover: an instance that was cut off may still rely on locks that no '
  'longer exist. Call this function before any grant, and allocate the fence from the sequence afterwards.';

-- This function prevents a race: a reader takes its snapshot. Then the holder renews its row and receives the response. Then the reader
-- reads the clock and considers the old row expired. To exclude this order, call expiry_clock() in a separate statement before the
-- statement that reads the rows. Then the clock is older than the snapshot. At higher isolation levels the snapshot is as old as the
-- transaction, so now() is used.
create or replace function holdfast.expiry_clock() returns timestamptz
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    return case current_setting('transaction_isolation') when 'read committed' then clock_timestamp() else now() end;
  end
  $$;
comment on function holdfast.expiry_clock() is
  'Returns the time that the next statement uses to decide whether a row has expired.';

create or replace function holdfast.require_read_committed() returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    if current_setting('transaction_isolation') <> 'read committed' then
      raise exception 'Expected a transaction at the READ COMMITTED isolation level, got %', upper(current_setting('transaction_isolation'))
        using errcode = 'HF004';
    end if;
  end
  $$;
comment on function holdfast.require_read_committed() is
  'Raises HF004 if the isolation level is higher than READ COMMITTED. At a higher level, the snapshot is as old as the transaction, so a function that has waited for a lock would '
  'not see what the previous owner of the lock has committed.';

create or replace function holdfast.refuse_truncate() returns trigger
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    raise exception 'The table %.% of Holdfast must not be truncated', tg_table_schema, tg_table_name
      using errcode = 'HF005',
            detail = 'The rows belong to rows of other tables. Without them, jobs would be lost or would run twice.',
            hint = 'Holdfast deletes old rows by itself: see jobs.retain. To uninstall Holdfast, drop the schema. To empty all tables before a '
              'restore of their rows, stop the fleet and run "set session_replication_role = replica" first.';
  end
  $$;
comment on function holdfast.refuse_truncate() is
  'Raises HF005 when a table of Holdfast is truncated by hand. Triggers of all tables call this function: see guard_tables().';

create or replace function holdfast.guard_tables() returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    schema constant text := holdfast.notification_channel();
    unguarded text;
  begin
    for unguarded in
      select relname
      from pg_class
      where relnamespace = to_regnamespace(quote_ident(schema))
        and relkind in ('r', 'p')
        and not exists (select from pg_trigger where tgrelid = pg_class.oid and tgname = 'refuse_truncate')
      order by relname
    loop
      execute format(
        'create trigger refuse_truncate before truncate on %1$I.%2$I execute function %1$I.refuse_truncate()', schema, unguarded
      );
    end loop;
  end
  $$;
comment on function holdfast.guard_tables() is
  'Creates the triggers that refuse to truncate a table, where they are missing. Each partition needs its own trigger. Called after functions '
  'were replaced and after partitions were created.';

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
  'Returns whether the instance whose current epoch has this number is alive: a session holds the lock on the number, or the instance''s '
  'row has not expired. Do not call this function on that session, because a session''s own lock does not block it.';

create or replace function holdfast.free_instance_name(for_namespace text, for_instance text, wanted text, preferred text)
  returns text
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    taken text[];
    candidate text := preferred;
    number integer := 1;
  begin
    -- Without the lock, this race is possible: A and B open with the same name. Neither sees the other's row, because neither has
    -- committed. Both keep the name. With the lock, B waits until A has committed. The next statement then takes a new snapshot, in which
    -- A's row is visible.
    perform pg_advisory_xact_lock(holdfast.lock_class('instance names'), hashtext(for_namespace || ' ' || wanted));
    taken := array(
      select name
      from holdfast.instance
      where namespace = for_namespace
        and split_part(name, '#', 1) = wanted
        and id <> for_instance
        and holdfast.is_present(session)
    );
    while candidate = any(taken) loop
      candidate := wanted || case when number > 1 then '#' || number else '' end;
      number := number + 1;
    end loop;
    return candidate;
  end
  $$;
comment on function holdfast.free_instance_name(text, text, text, text) is
  'Returns the first name that no other live instance in the namespace has: the preferred name, the wanted name, or the wanted name with the suffix #2, #3, and so on. Locks the wanted name until the transaction ends. The transaction must record the instance.';

create or replace function holdfast.note_lost_instances(sessions integer[]) returns void
  language sql
  set search_path = pg_catalog, pg_temp
  as $$
    update holdfast.instance_name
    set gone_at = clock_timestamp(),
        ending = 'lost'
    from holdfast.instance
    where instance.session = any(note_lost_instances.sessions)
      and instance_name.id = instance.id
      and gone_at is null
  $$;
comment on function holdfast.note_lost_instances(integer[]) is
  'Records that the instances whose last epochs are no longer present are gone. An instance that reconnects removes the record.';

create or replace function holdfast.instance_of_session(session integer) returns text
  language plpgsql
  stable
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    return (select (array_agg(id))[1] from holdfast.instance_name where sessions @> array[instance_of_session.session]);
  end
  $$;
comment on function holdfast.instance_of_session(integer) is
  'Returns the id of the instance that has, or had, an epoch with this session number. Null if the instance is no longer known.';
