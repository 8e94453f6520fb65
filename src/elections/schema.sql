create unlogged table holdfast.election (
  namespace text not null,
  name text not null,
  term bigint not null,
  instance text not null,
  session integer,
  since timestamptz not null,
  primary key (namespace, name)
) with (fillfactor = 50);
comment on table holdfast.election is
  'Each election''s current or last leader, for followers. The lock or lease on election/<name> is authoritative. A row is valid only '
  'while its session is present. Deleted one month after the last term started.';
comment on column holdfast.election.term is 'Number of the current or last term, which is the grant''s fencing token.';
comment on column holdfast.election.instance is 'Instance ID of the current or last leader.';
comment on column holdfast.election.session is 'Session number of the leader''s epoch (see instance). Null after the leader has stepped down.';

create unlogged table holdfast.candidate (
  namespace text not null,
  name text not null,
  session integer not null,
  primary key (namespace, name, session)
);
comment on table holdfast.candidate is
  'Preferred candidates that lead or wait to lead. While one of them is present, other instances do not lead.';
comment on column holdfast.candidate.session is 'Session number of the candidate''s epoch. When the epoch is no longer present, the row is no longer valid.';
