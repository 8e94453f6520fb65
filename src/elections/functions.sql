-- Functions of leader elections.

create or replace function holdfast.elections_largest_numbers() returns table (sequence regclass, largest bigint)
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select 'holdfast.fence'::regclass, max(term) from holdfast.election
  $$;
comment on function holdfast.elections_largest_numbers() is
  'Returns the largest number from each sequence in this module''s tables. See sequence_positions().';
