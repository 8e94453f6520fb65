-- Deliveries: keys whose effect happens once, and the result that a duplicate receives.

create table holdfast.delivery (
  namespace text not null,
  key text collate "C" not null check (length(key) <= 500),
  state text not null check (state in ('in-flight', 'done', 'failed')),
  token text not null,
  session integer not null,
  instance text not null,
  fence bigint not null,
  fingerprint text,
  value json,
  body bytea,
  started_at timestamptz not null,
  finished_at timestamptz,
  expires_at timestamptz not null,
  primary key (namespace, key)
);
comment on table holdfast.delivery is
  'Deliveries: one row for each key that is being run, or has its answer. A row in flight whose session is not present any more, and one that has expired, count as absent.';
comment on column holdfast.delivery.namespace is 'The namespace that the key belongs to.';
comment on column holdfast.delivery.key is 'What the user calls that which must happen once. In the order of its bytes, so that those that begin alike stand together.';
comment on column holdfast.delivery.state is 'in-flight: claimed, for as long as its session is present. done: it has its answer. failed: its failure is its answer.';
comment on column holdfast.delivery.token is 'Drawn for each run; only who knows it can record an answer, or let go of the key.';
comment on column holdfast.delivery.session is 'The number of the epoch in which the instance runs it; 0 when a transaction of the caller does, whose row nobody else sees before it is done.';
comment on column holdfast.delivery.instance is 'The instance that runs it, or ran it.';
comment on column holdfast.delivery.fence is 'The fence of the run; a later run of the key has a larger one.';
comment on column holdfast.delivery.fingerprint is 'By what the payload is known; null when the caller did not say.';
comment on column holdfast.delivery.value is 'The answer, or the failure; null for an answer of nothing. Not jsonb, which changes what it is given.';
comment on column holdfast.delivery.body is 'Bytes that belong to the answer, such as the body of a response.';
comment on column holdfast.delivery.started_at is 'When the run began.';
comment on column holdfast.delivery.finished_at is 'When its answer was recorded.';
comment on column holdfast.delivery.expires_at is 'From then on the key counts as never seen; the row is removed some time later.';
create index delivery_expires_at on holdfast.delivery (expires_at);
