-- Shares: the members of each share, and the resources that are done in each round.

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
comment on column holdfast.share_member.session is 'The number of its epoch; the row means nothing once that is not present.';

create table holdfast.share_done (
  namespace text not null,
  share text not null,
  round text not null,
  resource text not null,
  instance text not null,
  fence bigint not null,
  started_at timestamptz not null,
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
comment on column holdfast.share_done.started_at is 'When the work on it began.';
comment on column holdfast.share_done.done_at is 'When it was done.';
create index share_done_done_at on holdfast.share_done (done_at);
