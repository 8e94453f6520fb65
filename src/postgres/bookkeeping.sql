-- Tables that record what was applied to the schema. They are made before anything else, and by themselves.

create table if not exists holdfast.migration (
  version integer primary key,
  name text not null,
  works_from integer not null,
  applied_at timestamptz not null default now()
);
comment on table holdfast.migration is 'Migrations that were applied to this schema.';
comment on column holdfast.migration.version is 'Counts from 1 without gaps.';
comment on column holdfast.migration.name is 'The name of the file; baseline for the first.';
comment on column holdfast.migration.works_from is 'Code made for this version of the schema, or a later one, can work with it.';
comment on column holdfast.migration.applied_at is 'When the migration was applied.';

create table if not exists holdfast.applied_functions (
  room text primary key,
  hash text not null,
  revision integer not null,
  applied_at timestamptz not null default now()
);
comment on table holdfast.applied_functions is
  'Functions that were applied to this schema, by the room that they belong to. An instance replaces them if its own differ and are not of a lower revision.';
comment on column holdfast.applied_functions.room is 'The room of the source.';
comment on column holdfast.applied_functions.hash is 'SHA-256 of the text that was applied.';
comment on column holdfast.applied_functions.revision is 'Number of the functions of all rooms together. It rises with each release that changes a function.';
comment on column holdfast.applied_functions.applied_at is 'When they were applied.';
