-- Notes on locks that last, for people who look.

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
