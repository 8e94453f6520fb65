-- Statistics of the server and of the soak test's database.

-- name: now
select
  (select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid())::integer as connections,
  (select count(*) from pg_locks where locktype = 'advisory')::integer as locks,
  pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8 as wal

-- name: tables
-- A partitioned table's numbers include its partitions.
select
  coalesce(parent.relname, pg_class.relname) as name,
  sum(pg_table_size(pg_class.oid))::float8 as bytes,
  sum(pg_indexes_size(pg_class.oid))::float8 as indexes,
  sum(coalesce(n_dead_tup, 0))::float8 as dead
from pg_class
left join pg_stat_user_tables on pg_stat_user_tables.relid = pg_class.oid
left join pg_inherits on inhrelid = pg_class.oid
left join pg_class as parent on parent.oid = inhparent
where pg_class.relnamespace = 'holdfast'::regnamespace
  and pg_class.relkind = 'r'
group by 1
order by 1

-- name: sequences
select sequencename as name, coalesce(last_value, 0)::float8 as value, max_value::float8 as "maxValue", cycle as cycles
from pg_sequences
where schemaname = 'holdfast'
