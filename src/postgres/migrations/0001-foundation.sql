-- The ground that every room stands on: keys and their names, fences, instances, and what is written down about
-- long holds and waits. Locks themselves are never rows: PostgreSQL's lock table is the authority.

create sequence holdfast.fence as bigint;
comment on sequence holdfast.fence is
  'Fencing tokens. Every grant of any name draws the next one, so that a later holder always has a larger one. advance_fence() keeps it ahead of all that was drawn before.';

create sequence holdfast.session as integer cycle;
comment on sequence holdfast.session is
  'Numbers of sessions. Each session of Holdfast holds a lock on its number, by which PostgreSQL itself vouches that it lives.';

create table holdfast.fencing (
  one_row boolean primary key default true check (one_row),
  system_identifier bigint not null,
  timeline integer not null,
  started_at timestamptz,
  database oid not null default 0,
  written_by xid not null default '0',
  fence_floor bigint not null default 0,
  generation integer not null default 0,
  began_at timestamptz not null default now()
);
comment on table holdfast.fencing is
  'The server on which fences were last advanced: one row. A difference between this row and the server begins a new generation: a restart, a crash, a failover, a restored or copied database, an upgrade. No lock of an earlier generation is left.';
comment on column holdfast.fencing.one_row is 'Makes it one row.';
comment on column holdfast.fencing.system_identifier is 'The cluster, as pg_control_system() names it; 0 where it is not readable.';
comment on column holdfast.fencing.timeline is 'The timeline that was being written; 0 where it is not readable.';
comment on column holdfast.fencing.started_at is 'When the server started.';
comment on column holdfast.fencing.database is 'The oid of the database. A copy made by "create database … template" has another one.';
comment on column holdfast.fencing.written_by is
  'The transaction that wrote this row, as the column xmin of the row shows it. Where the two differ, something else wrote the row: a restored dump, or logical replication.';
comment on column holdfast.fencing.fence_floor is
  'The last value of the sequence fence when this row was written. A sequence below it was set back, or never copied.';
comment on column holdfast.fencing.generation is 'Number of the generation.';
comment on column holdfast.fencing.began_at is 'When the generation was noticed.';
insert into holdfast.fencing (system_identifier, timeline) values (0, 0);

create unlogged table holdfast.crash_witness (
  one_row boolean primary key default true check (one_row)
);
comment on table holdfast.crash_witness is
  'One row, written when a generation begins. PostgreSQL empties unlogged tables after a crash, so a missing row is the evidence of a crash, also of one that the postmaster survived.';
comment on column holdfast.crash_witness.one_row is 'Makes it one row.';

create table holdfast.instance (
  id text primary key,
  namespace text not null,
  session integer not null,
  backend_pid integer not null,
  host text not null,
  os_pid integer not null,
  version text not null,
  expiry_ms integer not null,
  refused_settings jsonb not null default '{}',
  pooler text not null,
  generation integer not null,
  clock_ahead_ms float8,
  lives integer not null default 1,
  opened_at timestamptz not null default now(),
  life_since timestamptz not null default now()
);
comment on table holdfast.instance is
  'Running processes that opened Holdfast. A row proves nothing by itself: an instance lives while its session''s lock is held.';
comment on column holdfast.instance.id is 'Random, drawn when the process opens Holdfast; part of the application_name of all its sessions.';
comment on column holdfast.instance.namespace is 'The namespace that its names belong to.';
comment on column holdfast.instance.session is 'The number of its anchor, new with every life.';
comment on column holdfast.instance.backend_pid is 'The server process of its anchor.';
comment on column holdfast.instance.host is 'The name of the machine, as the process sees it.';
comment on column holdfast.instance.os_pid is 'The process id on that machine.';
comment on column holdfast.instance.version is 'The version of the package holdfast.';
comment on column holdfast.instance.expiry_ms is 'After this long in silence the server ends its sessions.';
comment on column holdfast.instance.refused_settings is 'Session settings that did not take effect: {"name": {"wanted": …, "got": …}}.';
comment on column holdfast.instance.pooler is 'What stands before the server: none, or a session pooler.';
comment on column holdfast.instance.generation is 'The generation of the server (see fencing) in which its present life began.';
comment on column holdfast.instance.clock_ahead_ms is 'By how much its clock was ahead of the database''s when its present life began, less the time of a journey. Nothing depends on it.';
comment on column holdfast.instance.lives is 'How many anchors it has had: 1 plus its reconnections.';
comment on column holdfast.instance.opened_at is 'When it opened.';
comment on column holdfast.instance.life_since is 'When its present anchor began.';

create table holdfast.name (
  key bigint primary key,
  namespace text not null,
  label text not null,
  used_at timestamptz not null default now()
);
comment on table holdfast.name is
  'The registry: what people call each key that was used. Swept when unused for a month.';
comment on column holdfast.name.key is 'The 64-bit number that is locked.';
comment on column holdfast.name.namespace is 'The namespace of the name; empty for pairs.';
comment on column holdfast.name.label is 'The name; class/object for pairs; space#number for numbered keys.';
comment on column holdfast.name.used_at is 'When it was last used, give or take half a day.';
create index name_used_at on holdfast.name (used_at);

create table holdfast.key_space (
  namespace text not null,
  space text not null,
  base bigint not null unique check (base % 1048576 = 0),
  primary key (namespace, space)
);
comment on table holdfast.key_space is 'Key spaces: a random base each, for keys that are base plus a small number.';
comment on column holdfast.key_space.namespace is 'The namespace that the space belongs to.';
comment on column holdfast.key_space.space is 'What people call the space.';
comment on column holdfast.key_space.base is 'The first key. A multiple of 2^20, the size of a space, so that no two overlap.';

create table holdfast.guarded (
  key bigint primary key,
  fence bigint not null,
  used_on date not null default (now() at time zone 'UTC')::date
) with (fillfactor = 70);
comment on table holdfast.guarded is
  'The largest fence that has guarded a write, by key. Swept when it has guarded none for a month.';
comment on column holdfast.guarded.key is 'The key of the name.';
comment on column holdfast.guarded.fence is 'Writes under a smaller fence are refused.';
comment on column holdfast.guarded.used_on is
  'The day (UTC) on which it last guarded a write. A day, so that the index is written once a day for each key and not with each write.';
create index guarded_used_on on holdfast.guarded (used_on);

create unlogged table holdfast.hold (
  session integer not null,
  key bigint not null,
  mode text not null check (mode in ('exclusive', 'shared')),
  fence bigint not null,
  since timestamptz not null,
  primary key (session, key)
);
comment on table holdfast.hold is
  'Notes on locks held for longer than a heartbeat, for people. Never an authority: pg_locks says who holds what.';
comment on column holdfast.hold.session is 'The session that holds it.';
comment on column holdfast.hold.key is 'The key.';
comment on column holdfast.hold.mode is 'exclusive or shared.';
comment on column holdfast.hold.fence is 'The fence of the grant.';
comment on column holdfast.hold.since is 'When it was granted.';

create unlogged table holdfast.wait (
  instance text not null,
  request integer not null,
  key bigint not null,
  kind text not null check (kind in ('lock', 'lease', 'permit')),
  mode text not null check (mode in ('exclusive', 'shared')),
  since timestamptz not null,
  holding bigint[] not null,
  believed_until timestamptz,
  primary key (instance, request)
);
comment on table holdfast.wait is
  'Notes on calls that have waited for longer than a second. They tell who waits for whom, and find deadlocks that PostgreSQL cannot see: those that run over several sessions, or over leases.';
comment on column holdfast.wait.instance is 'The instance that waits.';
comment on column holdfast.wait.request is 'Which of its requests.';
comment on column holdfast.wait.key is 'The key that it waits for.';
comment on column holdfast.wait.kind is 'What it waits for: a lock or a lease of the key, or a permit, of those that hold something meanwhile.';
comment on column holdfast.wait.mode is 'exclusive or shared.';
comment on column holdfast.wait.since is 'When it began to wait.';
comment on column holdfast.wait.holding is 'The keys that the same flow of control holds meanwhile.';
comment on column holdfast.wait.believed_until is
  'Of an instance without an anchor: until when the note is believed, unless it is renewed. Null: for as long as the instance has a session.';

create function holdfast.lock_key(namespace text, name text) returns bigint
  language sql immutable strict parallel safe
  set search_path = pg_catalog, pg_temp
  as $$
    select ('x' || encode(substr(sha256(convert_to(namespace, 'UTF8') || '\x00'::bytea || convert_to(name, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint
  $$;
comment on function holdfast.lock_key(text, text) is
  'The key of a name, for psql and other languages: select pg_advisory_lock(holdfast.lock_key(''billing'', ''nightly-report'')).';

create function holdfast.pair_key(class integer, object integer) returns bigint
  language sql immutable strict parallel safe
  set search_path = pg_catalog, pg_temp
  as $$ select (class::bigint << 32) | (object::bigint & 4294967295) $$;
comment on function holdfast.pair_key(integer, integer) is 'The key of a (class, object) pair.';

create function holdfast.space_key(namespace text, space text, number integer) returns bigint
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

create function holdfast.clock_floor() returns bigint
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$ select (extract(epoch from clock_timestamp() - timestamptz '2020-01-01 00:00:00+00') * 1048576)::bigint $$;
comment on function holdfast.clock_floor() is
  'Smallest number that fences and job ids may continue with at this moment: 2^20 for each second since 2020. No server draws as many, so it is larger than all numbers drawn before, also those that a restored backup knows nothing of. Below 2^53 until the year 2292.';

create function holdfast.raise_sequence(sequence regclass, floor bigint, leaps boolean) returns boolean
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
    perform pg_advisory_lock(holdfast.session_class() # 32, 0);
    begin
      -- The first value that a sequence gives out is its last_value, until it is called.
      execute format('select last_value - (not is_called)::integer from %s', sequence) into reached;
      if reached < floor or leaps then
        -- Minutes ahead of the clock: the clock was set back, and does not show what a failover or a restore has forgotten.
        if reached > floor + 67108864 then
          ahead := 67108864;
        end if;
        perform setval(sequence, least(greatest(reached, floor) + ahead, seqmax)) from pg_sequence where seqrelid = sequence;
      end if;
    exception
      when others or query_canceled then
        perform pg_advisory_unlock(holdfast.session_class() # 32, 0);
        raise;
    end;
    perform pg_advisory_unlock(holdfast.session_class() # 32, 0);
    return reached < floor;
  end
  $$;
comment on function holdfast.raise_sequence(regclass, bigint, boolean) is
  'Moves a sequence beyond the floor if it is below the floor, and answers whether it was. With leaps: moves it ahead in any case.';

create function holdfast.numbers_in_tables() returns table (sequence regclass, reached bigint, largest bigint)
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    -- An opening runs this under its statement_timeout, in databases of any size: so of large tables only the latest rows are
    -- read, by an index. The number of a latest row is nearly the largest, and callers go far beyond it.
    return query
    select 'holdfast.fence'::regclass, (select last_value - (not is_called)::integer from holdfast.fence), greatest(
      (select fence_floor from holdfast.fencing),
      (select max(fence) from holdfast.guarded where used_on >= (select max(used_on) - 1 from holdfast.guarded)),
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
      (select max(session) from holdfast.loose_end),
      (select max(session) from holdfast.schedule_member),
      (select max(session) from (select session from holdfast.delivery order by expires_at desc limit 1000) as latest),
      (
        select max(latest.session)
        from holdfast.schedule
        cross join lateral (select session from holdfast.tick where tick.schedule = schedule.key order by at desc limit 10) as latest
      )
    )
    union all
    select 'holdfast.ticket'::regclass, (select last_value - (not is_called)::integer from holdfast.ticket), (select max(ticket) from holdfast.permit)
    union all
    select 'holdfast.audit_number'::regclass, (select last_value - (not is_called)::integer from holdfast.audit_number), (select max(id) from holdfast.audit);
  end
  $$;
comment on function holdfast.numbers_in_tables() is
  'For each sequence: the last value, and the largest number in the tables that it numbers. A sequence below it was not copied with its tables, as by logical replication.';

create function holdfast.largest_job_number() returns bigint
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    return greatest(
      (select max(id) from holdfast.job),
      (select max(id) from holdfast.waiting),
      (select max(id) from holdfast.job_history),
      (select max(number) from holdfast.loose_end)
    );
  end
  $$;
comment on function holdfast.largest_job_number() is 'The largest id of a job in the tables; null without any. Relies on their primary keys and on job_history_id.';

create function holdfast.catch_up_sequences() returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    return (
      select coalesce(bool_or(holdfast.raise_sequence(sequence, largest, false)), false)
      from holdfast.numbers_in_tables()
      where largest > reached
        -- An application may not advance audit_number. Whoever writes the audit does.
        and has_sequence_privilege(sequence, 'update')
    );
  end
  $$;
comment on function holdfast.catch_up_sequences() is
  'Moves each sequence beyond the largest number in its tables, and answers whether one was behind. Safe to run at any time.';

create function holdfast.advance_fence() returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    recorded record;
    system_here bigint;
    timeline_here integer;
    -- The path of a file names the database.
    database_here constant oid := split_part(pg_relation_filepath('holdfast.fencing'), '/', -2);
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

    if not exists (select from holdfast.fencing) then
      -- A dump is restored table by table, in the order of their names: the row is about to come, and must not be there then.
      if not exists (select from holdfast.migration) then
        raise exception 'The tables of Holdfast are empty: a restore is under way, or has failed'
          using errcode = 'HF002',
                hint = 'Wait until the restore is complete. If none is under way, restore the backup again.';
      end if;
      -- Somebody has deleted it.
      insert into holdfast.fencing (system_identifier, timeline, generation)
      select 0, 0, greatest(1, max(instance.generation)) from holdfast.instance
      on conflict on constraint fencing_pkey do nothing;
    end if;
    -- Concurrent openings take turns, so that one generation begins once. The row is read after the lock was granted.
    perform from holdfast.fencing for update;
    select fencing.*, fencing.xmin as writer into strict recorded from holdfast.fencing;
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
    update holdfast.fencing
    set system_identifier = system_here,
        timeline = timeline_here,
        started_at = pg_postmaster_start_time(),
        database = database_here,
        fence_floor = (select last_value from holdfast.fence),
        generation = fencing.generation + is_new::integer,
        began_at = case when is_new then clock_timestamp() else fencing.began_at end;
    -- Not pg_current_xact_id(), which is another number inside a savepoint.
    update holdfast.fencing set written_by = fencing.xmin;
  end
  $$;
comment on function holdfast.advance_fence() is
  'Keeps the fences ahead of all that a crash, a failover, a restore or an upgrade may have forgotten, and begins a new generation where one of these has happened. Called whenever an instance opens or reconnects.';

create function holdfast.guard_key(key bigint, fence bigint, session integer default null) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  begin
    insert into holdfast.guarded as known (key, fence) values (guard_key.key, guard_key.fence)
    on conflict on constraint guarded_pkey do update
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

create function holdfast.guard(namespace text, name text, fence bigint, session integer default null) returns void
  language sql
  set search_path = pg_catalog, pg_temp
  as $$ select holdfast.guard_key(holdfast.lock_key(namespace, name), fence, session) $$;
comment on function holdfast.guard(text, text, bigint, integer) is
  'Refuses (HF001) the writes of a stale holder of a name, in the transaction of those writes: select holdfast.guard(''billing'', ''nightly-report'', 1048577).';
