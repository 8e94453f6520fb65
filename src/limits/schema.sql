-- Limits. A permit is one of the uses that an entity allows at the same time. A rate allows a number of uses in a period.

create sequence holdfast.wait_order as bigint;
comment on sequence holdfast.wait_order is 'The order in which those came who wait for permits.';

create unlogged table holdfast.limit_state (
  key bigint primary key,
  namespace text not null,
  name text not null,
  in_use bigint not null default 0,
  waiting integer not null default 0,
  changed_at timestamptz not null default now()
) with (fillfactor = 50);
comment on table holdfast.limit_state is
  'One row for each entity that was limited lately: how much of it is in use. Whoever changes its permits has locked this row. Swept when nothing has been in use for a while.';
comment on column holdfast.limit_state.key is 'The key of limit/ and the name.';
comment on column holdfast.limit_state.namespace is 'The namespace of the name.';
comment on column holdfast.limit_state.name is 'What people call the entity.';
comment on column holdfast.limit_state.in_use is 'The weights of the permits that are granted, together.';
comment on column holdfast.limit_state.waiting is 'How many wait.';
comment on column holdfast.limit_state.changed_at is 'When that changed last.';

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
  'Permits that are granted or waited for. A row means nothing once its epoch is not present any more (is_present), so nothing is lost with an unlogged table: a crash ends all epochs.';
comment on column holdfast.permit.key is 'The key of the entity.';
comment on column holdfast.permit.token is 'Drawn at random for each request.';
comment on column holdfast.permit.session is 'The number of the epoch of the instance that asked.';
comment on column holdfast.permit.instance is 'The instance that asked.';
comment on column holdfast.permit.weight is 'How much it takes of the entity; 0 for a request that was taken back before it arrived.';
comment on column holdfast.permit.max is 'How much there may be in use, as the asker has it.';
comment on column holdfast.permit.wait_order is 'Its place in the queue; null when it never had to wait.';
comment on column holdfast.permit.fence is 'The fence of the grant; null while it waits.';
comment on column holdfast.permit.since is 'When it was granted; while it waits, when it began to.';
create index permit_queue on holdfast.permit (key, wait_order) where fence is null;

create table holdfast.rate (
  key bigint primary key,
  namespace text not null,
  name text not null,
  full_at bigint not null
) with (fillfactor = 50);
comment on table holdfast.rate is
  'One row for each entity that spends at a rate. A row whose time has passed says the same as no row, and is swept.';
comment on column holdfast.rate.key is 'The key of rate/ and the name.';
comment on column holdfast.rate.namespace is 'The namespace of the name.';
comment on column holdfast.rate.name is 'What people call the entity.';
comment on column holdfast.rate.full_at is
  'When all that was spent will be there again, in nanoseconds since 1970 on the clock of this database.';
