-- Tables that record which migrations and functions were applied to the schema. They are created before everything else.

create table if not exists holdfast.migration (
  version integer primary key,
  name text not null,
  works_from integer not null,
  applied_at timestamptz not null default now()
);
comment on table holdfast.migration is 'Migrations that were applied to this schema.';
comment on column holdfast.migration.version is 'Schema version, from 1 without gaps.';
comment on column holdfast.migration.name is 'Name of the migration file. The first migration is called baseline.';
comment on column holdfast.migration.works_from is 'Oldest schema version whose code still works after this migration.';
comment on column holdfast.migration.applied_at is 'Time when the migration was applied.';

create table if not exists holdfast.applied_functions (
  room text primary key,
  hash text not null,
  revision integer not null,
  applied_at timestamptz not null default now()
);
comment on table holdfast.applied_functions is
  'Functions that were applied to this schema, one row for each module. An instance replaces functions that differ from its own, unless its own functions have a lower revision.';
comment on column holdfast.applied_functions.room is 'Module (source directory) that the functions belong to.';
comment on column holdfast.applied_functions.hash is 'SHA-256 hash of the SQL text that was applied.';
comment on column holdfast.applied_functions.revision is
  'Revision of all modules'' functions. Each release that changes a function increases the revision.';
comment on column holdfast.applied_functions.applied_at is 'Time when the functions were applied.';
