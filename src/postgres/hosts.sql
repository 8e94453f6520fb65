-- Statements that run on each of several hosts. They run before search_path is set, so the statements qualify each function with its schema
-- and use no operators.

-- name: role
-- Returns whether the host accepts writes, and if so, its system identifier and timeline. Every promotion begins a new timeline.
select
  pg_catalog.pg_is_in_recovery() or pg_catalog.current_setting('transaction_read_only')::boolean as refuses_writes,
  case
    when not pg_catalog.pg_is_in_recovery()
    then (select system_identifier::pg_catalog.text from pg_catalog.pg_control_system())
  end as system,
  case
    when not pg_catalog.pg_is_in_recovery() then pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn())
  end as wal_file

-- name: role_without_system
-- Variant of `role` for database services that hide the control file. These services ensure that only one host accepts writes.
select
  pg_catalog.pg_is_in_recovery() or pg_catalog.current_setting('transaction_read_only')::boolean as refuses_writes,
  null as system,
  null as wal_file
