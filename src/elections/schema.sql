-- Elections: who leads, and the preferred candidates.

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
  'Who leads, for those who follow. Never an authority: the lock or lease on election/<name> decides, and a row is believed only while its session is present. Swept when nobody has led for it and its last term began a month ago.';
comment on column holdfast.election.namespace is 'The namespace of the election.';
comment on column holdfast.election.name is 'Its name.';
comment on column holdfast.election.term is 'The present term, or the last one: the fence of the grant.';
comment on column holdfast.election.instance is 'The instance that leads, or was the last to lead.';
comment on column holdfast.election.session is 'The number of its epoch (see instance); null when it has stepped down.';
comment on column holdfast.election.since is 'When the term began.';

create unlogged table holdfast.candidate (
  namespace text not null,
  name text not null,
  session integer not null,
  primary key (namespace, name, session)
);
comment on table holdfast.candidate is
  'Preferred candidates that lead or want to. The others do not lead while one of them is present.';
comment on column holdfast.candidate.namespace is 'The namespace of the election.';
comment on column holdfast.candidate.name is 'Its name.';
comment on column holdfast.candidate.session is 'The number of the candidate''s epoch; the row means nothing once that is not present.';
