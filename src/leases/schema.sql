-- Leases: names held for a time, on the clock of the database. They work through any pooler.

create table holdfast.lease (
  key bigint primary key,
  token text not null,
  instance text not null,
  fence bigint not null,
  ttl_ms integer not null,
  min_hold_ms bigint not null,
  granted_at timestamptz not null,
  expires_at timestamptz not null,
  has_waiters boolean not null default false,
  has_co_holders boolean not null default false
) with (fillfactor = 50);
comment on table holdfast.lease is
  'Leases: who has a name, until when, on the clock of this database. A row whose time is over is a name that is free.';
comment on column holdfast.lease.key is 'The key of the name.';
comment on column holdfast.lease.token is 'Drawn for each acquisition; only who knows it can renew or release. Empty when an operator has expired it.';
comment on column holdfast.lease.instance is 'The instance that holds it.';
comment on column holdfast.lease.fence is 'The fence of the grant.';
comment on column holdfast.lease.ttl_ms is 'How long it lasts without a renewal.';
comment on column holdfast.lease.min_hold_ms is 'How long the name stays taken, counted from the grant, also when it is released before.';
comment on column holdfast.lease.granted_at is 'When it was granted.';
comment on column holdfast.lease.expires_at is 'From then on it is free.';
comment on column holdfast.lease.has_waiters is 'Somebody waits for it, and wants to be told when it is released.';
comment on column holdfast.lease.has_co_holders is
  'Another instance has acquired it with the same token: whoever relies on it is told when it is released.';
create index lease_expires_at on holdfast.lease (expires_at);
