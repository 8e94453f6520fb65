-- The audit: acts of the visitors of the dashboard.

create sequence holdfast.audit_number as bigint;
comment on sequence holdfast.audit_number is 'Ids of audit entries.';

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
  'Acts of the visitors of the dashboard. Inserted before an act and updated after it. An insert also deletes rows older than 90 days.';
comment on column holdfast.audit.id is 'Id of the entry.';
comment on column holdfast.audit.at is 'Time directly before the act.';
comment on column holdfast.audit.visitor is 'Name that auth returned. loopback if the dashboard has no auth.';
comment on column holdfast.audit.act is 'Name of the act, which is also the name of the right.';
comment on column holdfast.audit.subject is 'Object of the act.';
comment on column holdfast.audit.params is 'Parameters of the act.';
comment on column holdfast.audit.reason is 'Reason that the visitor gave, or null.';
comment on column holdfast.audit.consequence is 'Text of the preview, read directly before the act.';
comment on column holdfast.audit.ended_at is 'End of the act. Null if the dashboard crashed or lost the database during the act.';
comment on column holdfast.audit.outcome is 'Outcome of the act. Null if the act failed or its outcome is unknown.';
comment on column holdfast.audit.error is 'Error of the act, or null.';
create index audit_at on holdfast.audit (at);
