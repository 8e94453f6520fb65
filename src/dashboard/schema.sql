-- The audit: what visitors of the dashboard did, to what, why, and with what result.

create sequence holdfast.audit_number as bigint;
comment on sequence holdfast.audit_number is 'Numbers what visitors did.';

create table holdfast.audit (
  id bigint primary key default nextval('holdfast.audit_number'),
  at timestamptz not null default clock_timestamp(),
  visitor text not null,
  act text not null,
  subject text not null,
  params jsonb not null,
  reason text,
  consequence text not null,
  ended_at timestamptz,
  outcome text,
  error text
);
comment on table holdfast.audit is
  'What visitors of the dashboard did. Written before it is done, and again when it has been. Each also forgets what is older than 90 days.';
comment on column holdfast.audit.id is 'Counts them.';
comment on column holdfast.audit.at is 'When it was about to be done.';
comment on column holdfast.audit.visitor is 'Who, as auth said; loopback for whoever is at the machine itself.';
comment on column holdfast.audit.act is 'What, by the name of the right to do it.';
comment on column holdfast.audit.subject is 'To what.';
comment on column holdfast.audit.params is 'With which parameters.';
comment on column holdfast.audit.reason is 'Why, as the visitor said; null when they did not.';
comment on column holdfast.audit.consequence is 'What would happen, as it was known a moment before.';
comment on column holdfast.audit.ended_at is 'When it was done, or had failed; null when the dashboard died, or lost the database, meanwhile.';
comment on column holdfast.audit.outcome is 'What became of it; null when it failed, or that is not known.';
comment on column holdfast.audit.error is 'What it failed of.';
create index audit_at on holdfast.audit (at);
