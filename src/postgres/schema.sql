-- Tables that all modules use: fences, instances, names, and waiting calls. No row represents a lock: PostgreSQL's lock table is
-- authoritative.

create sequence holdfast.fence as bigint;
comment on sequence holdfast.fence is
  'Fencing tokens. Every grant of any name allocates the next number, so a later holder always has a larger fence. advance_fence() moves '
  'the sequence ahead after a crash or restore.';

create sequence holdfast.session as integer cycle;
comment on sequence holdfast.session is
  'Session numbers. Each session of Holdfast holds an advisory lock on its number. The lock proves that the session exists.';

create table holdfast.server_generation (
  one_row boolean primary key default true check (one_row),
  system_identifier bigint not null,
  timeline integer not null,
  started_at timestamptz,
  database oid not null default 0,
  written_by xid not null default '0',
  fence_floor bigint not null default 0,
  generation integer not null default 0,
  era integer not null default 0,
  began_at timestamptz not null default now()
);
comment on table holdfast.server_generation is
  'One row: the server on which fences were last advanced. If the server differs from this row (after a restart, a crash, a failover, a restore, a copy or an upgrade), a new generation begins. Locks from earlier generations no longer exist.';
comment on column holdfast.server_generation.one_row is 'Limits the table to one row.';
comment on column holdfast.server_generation.system_identifier is
  'Identifier of the cluster from pg_control_system(). 0 if it is not readable.';
comment on column holdfast.server_generation.timeline is 'Timeline of the write-ahead log. 0 if it is not readable.';
comment on column holdfast.server_generation.started_at is 'Start time of the server.';
comment on column holdfast.server_generation.database is
  'The database''s oid. A copy made by "create database … template" has a different oid.';
comment on column holdfast.server_generation.written_by is
  'The transaction that wrote this row. If the row''s column xmin differs, a restored dump or logical replication wrote the row.';
comment on column holdfast.server_generation.fence_floor is
  'Last value of the sequence fence when this row was written. If the sequence is below it, the sequence was set back or not copied.';
comment on column holdfast.server_generation.era is
  'Number of the cluster: increases when the tables are found in another cluster or database, where the transaction ids in the rows are '
  'meaningless.';
comment on column holdfast.server_generation.began_at is 'Time when the generation was detected.';
insert into holdfast.server_generation (system_identifier, timeline) values (0, 0);

create unlogged table holdfast.crash_witness (
  one_row boolean primary key default true check (one_row)
);
comment on table holdfast.crash_witness is
  'One row, written when a generation begins. PostgreSQL empties unlogged tables after a crash, so a missing row proves a crash, even if the postmaster kept running.';
comment on column holdfast.crash_witness.one_row is 'Limits the table to one row.';

create table holdfast.instance (
  id text primary key,
  namespace text not null,
  name text not null,
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
  'Instances (processes that opened Holdfast). A row alone does not prove that an instance is alive: see session and expires_at.';
comment on column holdfast.instance.id is 'Random id of the instance. The id is part of the application_name of all its sessions.';
comment on column holdfast.instance.namespace is 'Namespace of the instance''s names.';
comment on column holdfast.instance.name is
  'Name of the instance, which people see instead of the id. Unique among the live instances in a namespace: see free_instance_name().';
comment on column holdfast.instance.session is
  'Session number of the current epoch. With an anchor, the instance is alive while the lock on this number is held.';
comment on column holdfast.instance.backend_pid is 'Server process of the anchor. Null without an anchor.';
comment on column holdfast.instance.os_pid is 'Process id on the machine.';
comment on column holdfast.instance.version is 'Version of the holdfast package.';
comment on column holdfast.instance.expiry_ms is 'Time without contact after which the server ends the instance''s sessions.';
comment on column holdfast.instance.refused_settings is 'Session settings that did not take effect: {"name": {"wanted": …, "got": …}}.';
comment on column holdfast.instance.pooler is 'Pooler between the instance and the server: none, session pooler, or any (no anchor).';
comment on column holdfast.instance.generation is 'Server generation (see server_generation) at the beginning of the current epoch.';
comment on column holdfast.instance.clock_ahead_ms is
  'The instance''s clock minus the database''s clock at the beginning of the current epoch, minus the network delay. For display only.';
comment on column holdfast.instance.reconnects is 'Number of times that the instance lost its presence and reconnected.';
comment on column holdfast.instance.epoch_since is 'Start of the current epoch.';
comment on column holdfast.instance.expires_at is
  'Without an anchor: time until which the instance is present unless it renews the row. Null with an anchor.';
comment on column holdfast.instance.node is 'Version of Node.js.';
comment on column holdfast.instance.state is
  'open: claims work. drain-requested: an operator has requested draining. draining: starts no new work. drained: no work is left, but the process is still running.';
comment on column holdfast.instance.drain_within_ms is 'The request''s drain timeout, in ms.';
comment on column holdfast.instance.revocations is
  'Number of times that an operator has revoked something from the instance. An instance without an anchor polls this column.';
create index instance_session on holdfast.instance (session);

create table holdfast.instance_name (
  id text primary key,
  name text not null,
  host text not null,
  os_pid integer not null,
  sessions integer[] not null,
  gone_at timestamptz,
  namespace text not null,
  app_version text,
  opened_at timestamptz not null default clock_timestamp(),
  ending text check (ending in ('closed', 'drained', 'lost'))
);
comment on table holdfast.instance_name is
  'Names and history of instances, live or gone. The history of jobs, runs and deliveries refers to instances by id or by session number. A row is deleted a month after its instance is gone, or later if finished jobs are kept longer.';
comment on column holdfast.instance_name.id is 'Id of the instance. See instance.';
comment on column holdfast.instance_name.name is 'Last name of the instance.';
comment on column holdfast.instance_name.os_pid is 'Process id on the machine.';
comment on column holdfast.instance_name.sessions is 'Session numbers of the instance''s latest 1,000 epochs, oldest first.';
comment on column holdfast.instance_name.gone_at is
  'Time when the instance closed, or when another instance detected that it was lost. Null while the instance is open, and until a loss is '
  'detected.';
comment on column holdfast.instance_name.namespace is 'Namespace of the instance''s names.';
comment on column holdfast.instance_name.app_version is 'Version of the program, from the version option. Null if the program did not set this option.';
comment on column holdfast.instance_name.opened_at is 'Time when the instance opened.';
comment on column holdfast.instance_name.ending is
  'closed: the instance closed. drained: it closed after all its work had ended. lost: it disappeared without closing. Null while gone_at '
  'is null.';
-- A pending list would make each search slower. It would not help inserts, because a row is inserted only when an instance opens.
create index instance_name_sessions on holdfast.instance_name using gin (sessions) with (fastupdate = off);
create index instance_name_gone_at on holdfast.instance_name (gone_at);
create index instance_name_opened_at on holdfast.instance_name (opened_at);

create table holdfast.name (
  key bigint primary key,
  namespace text not null,
  label text not null,
  used_at timestamptz not null default now()
);
comment on table holdfast.name is
  'Registry of names: the name of each key that was used. A row is deleted after a month without use.';
comment on column holdfast.name.key is 'The 64-bit key.';
comment on column holdfast.name.namespace is 'Namespace of the name. Empty for pairs.';
comment on column holdfast.name.label is 'The name. Pairs are shown as class/object, numbered keys as space#number.';
comment on column holdfast.name.used_at is 'Time of the last use, accurate to 12 hours.';
create index name_used_at on holdfast.name (used_at);

create table holdfast.key_space (
  namespace text not null,
  space text not null,
  base bigint not null unique check (base % 1048576 = 0),
  primary key (namespace, space)
);
comment on table holdfast.key_space is 'Key spaces. A numbered key is the random base of its space plus a small number.';
comment on column holdfast.key_space.space is 'Name of the space.';
comment on column holdfast.key_space.base is
  'First key of the space. A multiple of 2^20, the size of a space, so that spaces do not overlap.';

create table holdfast.fence_guard (
  key bigint primary key,
  fence bigint not null,
  used_on date not null default (now() at time zone 'UTC')::date
) with (fillfactor = 70);
comment on table holdfast.fence_guard is
  'Largest fence that has guarded a write, for each key. A row is deleted after a month without use.';
comment on column holdfast.fence_guard.fence is 'Largest fence that has guarded a write. Writes with a smaller fence are rejected.';
comment on column holdfast.fence_guard.used_on is
  'Day (UTC) of the last guarded write. This is a date, so that the index changes once a day for each key instead of with each write.';
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
  instance_name text,
  primary key (instance, request)
);
comment on table holdfast.wait is
  'Calls that have waited for longer than 1 s. They show which call is waiting for which holder, and reveal deadlocks that PostgreSQL cannot detect because they involve several sessions or leases.';
comment on column holdfast.wait.instance is 'Instance that made the call.';
comment on column holdfast.wait.request is 'Number of the call within the instance.';
comment on column holdfast.wait.key is 'The key that the call waits for.';
comment on column holdfast.wait.kind is 'Whether the call is waiting for a lock or lease on the key, or for a permit.';
comment on column holdfast.wait.mode is 'Requested mode: exclusive or shared.';
comment on column holdfast.wait.holding is 'Keys that the same flow of control holds during the wait.';
comment on column holdfast.wait.valid_until is
  'For an instance without an anchor, the row is valid until this time unless the instance renews the row. If null, the row is valid while the instance has a session.';
comment on column holdfast.wait.instance_name is
  'Name of the instance. Stored here, because an instance that uses only leases has no row in the table instance.';
