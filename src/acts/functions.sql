-- Functions of the audit log.

create or replace function holdfast.acts_largest_numbers() returns table (sequence regclass, largest bigint)
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select 'holdfast.audit_number'::regclass, max(id) from holdfast.audit
  $$;
comment on function holdfast.acts_largest_numbers() is
  'Returns the largest number from each sequence in this module''s tables. See sequence_positions().';
