-- Functions of shares.

create or replace function holdfast.shares_largest_numbers() returns table (sequence regclass, largest bigint)
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select 'holdfast.fence'::regclass, max(fence)
    from (select fence from holdfast.share_done order by done_at desc limit 1000) as latest
  $$;
comment on function holdfast.shares_largest_numbers() is
  'Returns the largest number from each sequence in this module''s tables. See sequence_positions().';
