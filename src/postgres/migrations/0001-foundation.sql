-- The ground that every room stands on: keys and their names, fences, instances, and what is written down about
-- long holds and waits. Locks themselves are never rows: PostgreSQL's lock table is the authority.

create sequence holdfast.fence as bigint;
comment on sequence holdfast.fence is
  'Fences. Every grant of any name draws the next one, so that a later holder always has a larger one. Moved ahead by advance_fence() at every opening.';

create sequence holdfast.session as integer cycle;
comment on sequence holdfast.session is
  'Numbers of sessions. Each session of Holdfast holds a lock on its number, by which PostgreSQL itself vouches that it lives.';

create table holdfast.fencing (
  one_row boolean primary key default true check (one_row),
  system_identifier bigint not null,
  timeline integer not null,
  started_at timestamptz,
  generation integer not null default 0,
  began_at timestamptz not null default now()
);
comment on table holdfast.fencing is
  'Where the fences were last advanced: one row. Another timeline or system means a failover, a restore or an upgrade; another start, a restart or a crash. Each begins a generation, in which no lock of an earlier one is left.';
comment on column holdfast.fencing.one_row is 'Makes it one row.';
comment on column holdfast.fencing.system_identifier is 'The cluster, as pg_control_system() names it; 0 where it is not readable.';
comment on column holdfast.fencing.timeline is 'The timeline that was being written; 0 where it is not readable.';
comment on column holdfast.fencing.started_at is 'When the server started, or recovered from the crash of one of its processes.';
comment on column holdfast.fencing.generation is 'Counts what ended all sessions at once.';
comment on column holdfast.fencing.began_at is 'When the generation was noticed.';
insert into holdfast.fencing (system_identifier, timeline) values (0, 0);

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

create function holdfast.advance_fence() returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
  declare
    recorded holdfast.fencing;
    system_here bigint := 0;
    timeline_here integer := 0;
    -- A crash that the postmaster survives resets the statistics, and only thereby can a plain role see it.
    started_here timestamptz := greatest(pg_postmaster_start_time(), (select stats_reset from pg_stat_bgwriter));
    -- A crash may forget fences that were drawn but not yet flushed; there are far fewer of them than this.
    ahead bigint := 1048576;
    -- A failover may forget fences that were not yet replicated; there are far fewer of them than this.
    ahead_for_each_timeline constant bigint := 4294967296;
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

    -- The row lock makes concurrent openings take turns, so that none sets the sequence back.
    select * into strict recorded from holdfast.fencing for update;
    if recorded.system_identifier <> 0 and recorded.system_identifier <> system_here then
      ahead := ahead_for_each_timeline;
    elsif recorded.timeline <> 0 then
      -- As many steps as timelines have passed: the previous step itself may have been lost in the failover.
      ahead := ahead + ahead_for_each_timeline * greatest(0, timeline_here - recorded.timeline);
    end if;
    perform setval('holdfast.fence', (select last_value from holdfast.fence) + ahead);
    if (recorded.system_identifier, recorded.timeline, recorded.started_at)
      is distinct from (system_here, timeline_here, started_here)
    then
      update holdfast.fencing
      set system_identifier = system_here,
          timeline = timeline_here,
          started_at = started_here,
          generation = generation + 1,
          began_at = clock_timestamp();
    end if;
  end
  $$;
comment on function holdfast.advance_fence() is
  'Moves the fences ahead of all that a crash, a failover, a restore or an upgrade may have forgotten. Called whenever an instance opens or reconnects.';

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
