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
  has_co_holders boolean not null default false,
  instance_name text
) with (fillfactor = 50);
comment on table holdfast.lease is
  'Leases: each name''s holder and expiry. The expiry is on this database''s clock. An expired row is equivalent to a free name.';
comment on column holdfast.lease.token is 'Random token that is required to renew or release the lease. Empty after a release during the minimum hold.';
comment on column holdfast.lease.ttl_ms is 'Time in milliseconds until the lease expires if it is not renewed.';
comment on column holdfast.lease.min_hold_ms is 'Minimum time in milliseconds for which the name stays taken after the grant, even after a release.';
comment on column holdfast.lease.expires_at is 'Time when the lease expires and the name becomes free.';
comment on column holdfast.lease.has_waiters is 'Whether a waiting call must be notified of the release.';
comment on column holdfast.lease.has_co_holders is
  'Whether another instance acquired the lease with the same token. A release then notifies all holders.';
comment on column holdfast.lease.instance_name is
  'Name of the instance. Stored here, because an instance that uses only leases has no row in the table instance.';
