create unlogged table holdfast.hold (
  session integer not null,
  key bigint not null,
  mode text not null check (mode in ('exclusive', 'shared')),
  fence bigint not null,
  since timestamptz not null,
  primary key (session, key)
);
comment on table holdfast.hold is
  'Locks that have been held for more than 3 seconds, for display only. pg_locks is authoritative for who holds a lock.';
comment on column holdfast.hold.session is 'Number of the session that holds the lock.';
comment on column holdfast.hold.mode is 'Lock mode: exclusive or shared.';
