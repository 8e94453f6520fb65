-- Audit log: acts that the dashboard's visitors and clients of the MCP server have run.

create sequence holdfast.audit_number as bigint;
comment on sequence holdfast.audit_number is 'Source of audit entries'' ids.';

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
  'Acts of the dashboard''s visitors and of clients of the MCP server. A row is inserted before an act and updated after it. An insert also deletes rows older than 90 days.';
comment on column holdfast.audit.at is 'Time immediately before the act.';
comment on column holdfast.audit.visitor is 'Name of the visitor that auth returned, or loopback if the dashboard has no auth. For the MCP server, the name that --actor sets.';
comment on column holdfast.audit.act is 'The act''s name, which is also the name of the right.';
comment on column holdfast.audit.subject is 'Object that the act changes.';
comment on column holdfast.audit.params is 'Parameters of the act.';
comment on column holdfast.audit.reason is 'Reason that the visitor gave, or null.';
comment on column holdfast.audit.consequence is 'Text of the preview, which is computed immediately before the act.';
comment on column holdfast.audit.ended_at is 'Time when the act ended. Null if the process crashed or lost its database connection during the act.';
comment on column holdfast.audit.outcome is 'Outcome of the act. Null if the act failed or its outcome is unknown.';
comment on column holdfast.audit.error is 'Error of the act, or null.';
create index audit_at on holdfast.audit (at);
