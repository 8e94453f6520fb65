create table holdfast.sample (
  hour timestamptz not null,
  key bigint not null,
  held_total integer not null,
  waited_total integer not null,
  held smallint[] not null,
  waited smallint[],
  primary key (hour, key)
) with (
  -- Each row of the hour is updated once a minute. Free space in the page allows HOT updates, which create no index entry.
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0.1,
  autovacuum_vacuum_cost_delay = 0
);
comment on table holdfast.sample is
  'Times for which each name was held and for which calls waited for it, per minute, over the last two days. All instances add to the same '
  'row for each name and hour. Covers Holdfast locks, leases and elections, up to a maximum number of names per hour.';
comment on column holdfast.sample.hour is 'Start of the hour (UTC).';
comment on column holdfast.sample.held_total is 'Sum of the values in the column held.';
comment on column holdfast.sample.waited_total is 'Sum of the values in the column waited.';
comment on column holdfast.sample.held is
  'Tenths of a second for which the name was held, in each of the 60 minutes. The value is the sum over all instances that share the name, so it may exceed a minute.';
comment on column holdfast.sample.waited is
  'Tenths of a second for which calls waited, in each of the 60 minutes, summed over all calls. Null if no call waited in this hour.';

create table holdfast.term (
  key bigint not null,
  fence bigint not null,
  kind text not null check (kind in ('lock', 'lease')),
  mode text not null check (mode in ('exclusive', 'shared')),
  instance text not null,
  host text,
  os_pid integer,
  began_at timestamptz not null,
  ended_at timestamptz,
  gone_by timestamptz,
  why text check (
    why in (
      'released', 'release-requested', 'drained', 'closed', 'stepped-down', 'replaced', 'not-eligible', 'session-ended', 'revoked', 'expired',
      'restarted', 'lost', 'gone'
    )
  ),
  instance_name text,
  primary key (key, fence)
) with (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
comment on table holdfast.term is
  'History of holders: the holder of a name, the start and the end of the term, and the reason why the term ended. Covers leaderships, and '
  'locks and leases that were held for at least a second. Instances record their terms once a minute.';
comment on column holdfast.term.kind is 'Kind of the hold: lock or lease.';
comment on column holdfast.term.mode is 'Mode of the hold: exclusive or shared.';
comment on column holdfast.term.instance is 'Instance that held the name.';
comment on column holdfast.term.instance_name is
  'Name of the instance. Stored here, because an instance that uses only leases has no row in the table instance.';
comment on column holdfast.term.host is 'Host of the instance. Stored here, because the row of an instance that is gone is removed.';
comment on column holdfast.term.os_pid is 'Process ID of the instance on its host.';
comment on column holdfast.term.began_at is 'Time of the grant.';
comment on column holdfast.term.ended_at is 'End of the term. Null while the term lasts, or until its end is detected. If why is gone: the last time when the name was known to be held.';
comment on column holdfast.term.gone_by is 'If why is gone: the latest possible end of the term. The exact end is between ended_at and gone_by.';
comment on column holdfast.term.why is
  'released: the holder released it. release-requested: an operator requested the release. drained, closed: the instance was drained or closed. stepped-down: the leader was asked to step down. replaced: a preferred candidate replaced the leader. not-eligible: the leader was no longer eligible. session-ended: an operator ended the session. revoked: an operator expired the lease, or another process released it by its token. expired: the lease was not renewed. restarted: the server restarted. lost: the instance could not reach the database in time. gone: the instance ended without recording a reason.';
create index term_instance on holdfast.term (instance) where ended_at is null;
create index term_ended_at on holdfast.term (ended_at);
