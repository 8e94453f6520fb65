-- Samples: what instances record once a minute about the names that they hold and wait for. Only people read them.

create table holdfast.sample (
  hour timestamptz not null,
  key bigint not null,
  held_total integer not null,
  waited_total integer not null,
  held smallint[] not null,
  waited smallint[],
  primary key (hour, key)
) with (
  -- Each minute writes each row of the hour anew beside its old version, and makes no index entry while the page has room for both.
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0.1,
  autovacuum_vacuum_cost_delay = 0
);
comment on table holdfast.sample is
  'How long each name was held and waited for, minute by minute, over the last two days: a row for each name and hour, to which instances add. Only what was told: by locks, leases and elections of this package, and at most so many names an hour.';
comment on column holdfast.sample.hour is 'The hour, which begins with it (UTC).';
comment on column holdfast.sample.key is 'The key of the name.';
comment on column holdfast.sample.held_total is 'The sum of held.';
comment on column holdfast.sample.waited_total is 'The sum of waited.';
comment on column holdfast.sample.held is
  'For how many tenths of a second it was held, in each of the sixty minutes. Of several instances that share it the sum, so that it may be more than a minute.';
comment on column holdfast.sample.waited is
  'For how many tenths of a second calls waited for it, in each minute, all calls together. Null: nobody did in this hour.';

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
  primary key (key, fence)
) with (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
comment on table holdfast.term is
  'Who held a name from when to when, and why it ended. Leaderships, and locks and leases that were held for a second, told by their instances once a minute. Of one whose instance cannot tell any more, what is known.';
comment on column holdfast.term.key is 'The key of the name.';
comment on column holdfast.term.fence is 'The fence of the grant.';
comment on column holdfast.term.kind is 'How it was held: as a lock, or by lease.';
comment on column holdfast.term.mode is 'exclusive or shared.';
comment on column holdfast.term.instance is 'The instance that held it.';
comment on column holdfast.term.host is 'Its machine; kept here, because the instance is forgotten when it has ended.';
comment on column holdfast.term.os_pid is 'Its process id on that machine.';
comment on column holdfast.term.began_at is 'When it was granted.';
comment on column holdfast.term.ended_at is 'When it ended; null while it lasts, or nobody has noticed its end. Of one that is gone: when it was last known to be held.';
comment on column holdfast.term.gone_by is 'Of one that is gone: when it was known to have ended. In between nobody knows.';
comment on column holdfast.term.why is
  'released: its work was done. release-requested: an operator had asked for it. drained, closed: so was its instance. stepped-down, replaced, not-eligible: the leader was asked to, made room for a preferred one, or might not lead any more. session-ended: an operator ended its session. revoked: an operator expired the lease, or somebody released it by its token. expired: the lease was not renewed. restarted: the server was. lost: the instance could not reach the database in time. gone: the instance ended without a word.';
create index term_instance on holdfast.term (instance) where ended_at is null;
create index term_ended_at on holdfast.term (ended_at);
