-- What is asked of each of several hosts, before anything else is, and before anything is set: so each function is named with its
-- schema, and there is no operator.

-- name: role
-- Whether it takes writes, and if so, the writing of which timeline of which system. Every promotion begins a timeline.
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
-- The same where the control file is not to be read, as on some services: they take care themselves that one host writes.
select
  pg_catalog.pg_is_in_recovery() or pg_catalog.current_setting('transaction_read_only')::boolean as refuses_writes,
  null as system,
  null as wal_file
