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
  'Idempotency keys (once): one row for each key that is in flight or has a result. An expired row, and an in-flight row whose session is not present, are treated as absent.';
comment on column holdfast.delivery.key is 'Idempotency key. Sorted by bytes, so that keys with a common prefix are adjacent.';
comment on column holdfast.delivery.state is 'in-flight: claimed while its session is present. done: the key has a result. failed: the failure is the result.';
comment on column holdfast.delivery.token is 'Random token of the run. Only the run with this token can record a result or free the key.';
comment on column holdfast.delivery.session is 'Session number of the epoch that runs the key. 0 if the run is in the caller''s transaction. Other sessions cannot see that row before the commit.';
comment on column holdfast.delivery.instance is 'Instance that runs or ran the key.';
comment on column holdfast.delivery.fence is 'Fencing token of the run. A later run with the key has a larger token.';
comment on column holdfast.delivery.fingerprint is 'Fingerprint that identifies the payload. Null if the caller passed no fingerprint.';
comment on column holdfast.delivery.value is 'Result or failure. Null for undefined. The type is not jsonb, because jsonb would change the text.';
comment on column holdfast.delivery.body is 'Bytes of the result, such as a response body.';
comment on column holdfast.delivery.expires_at is 'Time when the key becomes free again. The row is removed later.';
create index delivery_expires_at on holdfast.delivery (expires_at);
