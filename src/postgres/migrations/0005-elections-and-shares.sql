-- Elections and shares: who leads, who wants to, who takes part, and what was done in which round.
-- works from: 2

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
comment on column holdfast.election.session is 'The number of its life (see instance); null when it has stepped down.';
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
comment on column holdfast.candidate.session is 'The number of the candidate''s life; the row means nothing once that is not present.';

create unlogged table holdfast.share_member (
  namespace text not null,
  share text not null,
  instance text not null,
  session integer not null,
  primary key (namespace, share, instance)
);
comment on table holdfast.share_member is
  'Which instances divide the resources of a share among themselves (shares.assign).';
comment on column holdfast.share_member.namespace is 'The namespace of the share.';
comment on column holdfast.share_member.share is 'Its name.';
comment on column holdfast.share_member.instance is 'The member.';
comment on column holdfast.share_member.session is 'The number of its life; the row means nothing once that is not present.';

create table holdfast.share_done (
  namespace text not null,
  share text not null,
  round text not null,
  resource text not null,
  instance text not null,
  fence bigint not null,
  began_at timestamptz not null,
  done_at timestamptz not null,
  primary key (namespace, share, round, resource)
);
comment on table holdfast.share_done is
  'Which resources of a share were worked on (shares.each), and when. Swept after a week.';
comment on column holdfast.share_done.namespace is 'The namespace of the share.';
comment on column holdfast.share_done.share is 'Its name.';
comment on column holdfast.share_done.round is 'The round, as its caller named it; empty for rounds without a name, of which the last is kept.';
comment on column holdfast.share_done.resource is 'The resource.';
comment on column holdfast.share_done.instance is 'The instance that worked on it.';
comment on column holdfast.share_done.fence is 'The fence under which it did; a smaller one cannot write over it.';
comment on column holdfast.share_done.began_at is 'When the work on it began.';
comment on column holdfast.share_done.done_at is 'When it was done.';
create index share_done_done_at on holdfast.share_done (done_at);
