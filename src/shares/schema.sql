create unlogged table holdfast.share_member (
  namespace text not null,
  share text not null,
  instance text not null,
  session integer not null,
  primary key (namespace, share, instance)
);
comment on table holdfast.share_member is 'Instances that divide a share''s resources among themselves (shares.assign).';
comment on column holdfast.share_member.share is 'Name of the share.';
comment on column holdfast.share_member.instance is 'Instance that is a member.';
comment on column holdfast.share_member.session is 'Session number of the member''s epoch. The row is not valid if the session is not present.';

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
  'A share''s resources that were processed (shares.each). Rows are removed after a week. Columns without a comment: see share_member.';
comment on column holdfast.share_done.round is 'Name of the round. Empty for rounds without a name, of which only the last is kept.';
comment on column holdfast.share_done.resource is 'Resource that was processed.';
comment on column holdfast.share_done.instance is 'Instance that processed the resource.';
comment on column holdfast.share_done.fence is 'Fencing token of the holder. A holder with a smaller token cannot overwrite the row.';
comment on column holdfast.share_done.done_at is 'Time when the work was recorded as done.';
create index share_done_done_at on holdfast.share_done (done_at);
