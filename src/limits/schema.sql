create sequence holdfast.wait_order as bigint;
comment on sequence holdfast.wait_order is 'Queue positions for requests that are waiting for permits, in order of arrival.';

create unlogged table holdfast.limit_state (
  key bigint primary key,
  namespace text not null,
  name text not null,
  in_use bigint not null default 0,
  waiting integer not null default 0,
  changed_at timestamptz not null default now()
) with (fillfactor = 50);
comment on table holdfast.limit_state is
  'Usage of each recently used entity. A transaction that changes the entity''s permits locks this row. Unused rows are deleted later.';
comment on column holdfast.limit_state.key is 'Key of the name limit/<name>.';
comment on column holdfast.limit_state.in_use is 'Total weight of all granted permits.';
comment on column holdfast.limit_state.waiting is 'Number of waiting requests.';

create unlogged table holdfast.permit (
  key bigint not null,
  token bigint not null,
  session integer not null,
  instance text not null,
  weight integer not null,
  max integer not null,
  wait_order bigint,
  fence bigint,
  since timestamptz not null,
  primary key (key, token)
) with (fillfactor = 80);
comment on table holdfast.permit is
  'Granted permits and waiting requests. A row is not valid when its epoch is no longer present. Unlogged, because a crash ends all epochs.';
comment on column holdfast.permit.token is 'Random token of the request.';
comment on column holdfast.permit.session is 'Epoch number of the instance that made the request.';
comment on column holdfast.permit.instance is 'Instance that made the request.';
comment on column holdfast.permit.weight is 'Number of the limit''s units that the permit uses. 0 marks a request that was cancelled before it arrived.';
comment on column holdfast.permit.max is 'The limit''s maximum, as given in the request.';
comment on column holdfast.permit.wait_order is 'Position in the queue. Null for a request that did not wait.';
comment on column holdfast.permit.fence is 'Fencing token of the grant. Null while the request is waiting.';
comment on column holdfast.permit.since is 'Time of the grant. For a waiting request, the time when the wait started.';
create index permit_queue on holdfast.permit (key, wait_order) where fence is null;

create table holdfast.rate (
  key bigint primary key,
  namespace text not null,
  name text not null,
  full_at bigint not null
) with (fillfactor = 50);
comment on table holdfast.rate is
  'State of each rate limit. A row whose full_at has passed is equivalent to no row, and is deleted later.';
comment on column holdfast.rate.key is 'Key of the name rate/<name>.';
comment on column holdfast.rate.full_at is
  'Time when all spent units are available again, in nanoseconds since 1970 on this database''s clock.';
