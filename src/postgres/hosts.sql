-- Statements for each of several hosts. They run before search_path is set, so each function has its schema, and there is no operator.

-- name: role
-- Whether the host accepts writes, and if so, its system and its timeline. Every promotion begins a timeline.
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
-- The same for services that hide the control file. These services ensure that only one host accepts writes.
select
  pg_catalog.pg_is_in_recovery() or pg_catalog.current_setting('transaction_read_only')::boolean as refuses_writes,
  null as system,
  null as wal_file
