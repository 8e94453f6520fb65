-- Tables that every room uses: fences, instances, names, and calls that wait. A lock is never a row: PostgreSQL's lock table is the
-- authority.

create sequence holdfast.fence as bigint;
comment on sequence holdfast.fence is
  'Fencing tokens. Every grant of any name draws the next one, so that a later holder always has a larger one. advance_fence() keeps it ahead of all that was drawn before.';

create sequence holdfast.session as integer cycle;
comment on sequence holdfast.session is
  'Numbers of sessions. Each session of Holdfast holds a lock on its number, by which PostgreSQL itself vouches that it lives.';

create table holdfast.server_generation (
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
comment on table holdfast.server_generation is
  'The server on which fences were last advanced: one row. A difference between this row and the server begins a new generation: a restart, a crash, a failover, a restored or copied database, an upgrade. No lock of an earlier generation is left.';
comment on column holdfast.server_generation.one_row is 'Makes it one row.';
comment on column holdfast.server_generation.system_identifier is 'The cluster, as pg_control_system() names it; 0 where it is not readable.';
comment on column holdfast.server_generation.timeline is 'The timeline that was being written; 0 where it is not readable.';
comment on column holdfast.server_generation.started_at is 'When the server started.';
comment on column holdfast.server_generation.database is 'The oid of the database. A copy made by "create database … template" has another one.';
comment on column holdfast.server_generation.written_by is
  'The transaction that wrote this row, as the column xmin of the row shows it. Where the two differ, something else wrote the row: a restored dump, or logical replication.';
comment on column holdfast.server_generation.fence_floor is
  'The last value of the sequence fence when this row was written. A sequence below it was set back, or never copied.';
comment on column holdfast.server_generation.generation is 'Number of the generation.';
comment on column holdfast.server_generation.began_at is 'When the generation was noticed.';
insert into holdfast.server_generation (system_identifier, timeline) values (0, 0);

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
  backend_pid integer,
  host text not null,
  os_pid integer not null,
  version text not null,
  expiry_ms integer not null,
  refused_settings jsonb not null default '{}',
  pooler text not null,
  generation integer not null,
  clock_ahead_ms float8,
  reconnects integer not null default 0,
  opened_at timestamptz not null default now(),
  epoch_since timestamptz not null default now(),
  expires_at timestamptz,
  node text,
  state text not null default 'open' check (state in ('open', 'drain-requested', 'draining', 'drained')),
  drain_within_ms bigint,
  revocations integer not null default 0
);
comment on table holdfast.instance is
  'Running processes that opened Holdfast. A row proves nothing by itself: an instance lives while its session''s lock is held.';
comment on column holdfast.instance.id is 'Random, drawn when the process opens Holdfast; part of the application_name of all its sessions.';
comment on column holdfast.instance.namespace is 'The namespace that its names belong to.';
comment on column holdfast.instance.session is 'The number of its anchor, new with every epoch.';
comment on column holdfast.instance.backend_pid is 'The server process of its anchor; null without one.';
comment on column holdfast.instance.host is 'The name of the machine, as the process sees it.';
comment on column holdfast.instance.os_pid is 'The process id on that machine.';
comment on column holdfast.instance.version is 'The version of the package holdfast.';
comment on column holdfast.instance.expiry_ms is 'After this long in silence the server ends its sessions.';
comment on column holdfast.instance.refused_settings is 'Session settings that did not take effect: {"name": {"wanted": …, "got": …}}.';
comment on column holdfast.instance.pooler is 'What stands before the server: none, or a session pooler.';
comment on column holdfast.instance.generation is 'The generation of the server (see server_generation) in which its present epoch began.';
comment on column holdfast.instance.clock_ahead_ms is 'By how much its clock was ahead of the database''s when its present epoch began, less the time of a journey. Nothing depends on it.';
comment on column holdfast.instance.reconnects is 'Number of times that it lost its presence and reconnected.';
comment on column holdfast.instance.opened_at is 'When it opened.';
comment on column holdfast.instance.epoch_since is 'When its present anchor began.';
comment on column holdfast.instance.expires_at is
  'Without an anchor: until when it is present, unless it renews. Null with one: then the lock on its session''s number tells.';
comment on column holdfast.instance.node is 'The version of Node.js that it runs on.';
comment on column holdfast.instance.state is
  'open: takes part. drain-requested: somebody wants it to drain. draining: it takes no new work. drained: nothing of its work is left; it lives until its process ends.';
comment on column holdfast.instance.drain_within_ms is 'How long what runs may take to come to its end, as whoever asked said.';
comment on column holdfast.instance.revocations is
  'How many times an operator has taken something from it. Without an anchor it hears of it by reading this.';
create index instance_session on holdfast.instance (session);

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

create table holdfast.fence_guard (
  key bigint primary key,
  fence bigint not null,
  used_on date not null default (now() at time zone 'UTC')::date
) with (fillfactor = 70);
comment on table holdfast.fence_guard is
  'The largest fence that has guarded a write, by key. Swept when it has guarded none for a month.';
comment on column holdfast.fence_guard.key is 'The key of the name.';
comment on column holdfast.fence_guard.fence is 'Writes under a smaller fence are refused.';
comment on column holdfast.fence_guard.used_on is
  'The day (UTC) on which it last guarded a write. A day, so that the index is written once a day for each key and not with each write.';
create index fence_guard_used_on on holdfast.fence_guard (used_on);

create unlogged table holdfast.wait (
  instance text not null,
  request integer not null,
  key bigint not null,
  kind text not null check (kind in ('lock', 'lease', 'permit')),
  mode text not null check (mode in ('exclusive', 'shared')),
  since timestamptz not null,
  holding bigint[] not null,
  valid_until timestamptz,
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
comment on column holdfast.wait.valid_until is
  'Of an instance without an anchor: until when the note is believed, unless it is renewed. Null: for as long as the instance has a session.';
