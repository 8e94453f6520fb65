-- What is asked of each of several hosts, before anything else is.

-- name: role
-- Whether it takes writes, and if so, the writing of which timeline of which system. Every promotion begins a timeline.
select
  pg_is_in_recovery() or current_setting('transaction_read_only')::boolean as refuses_writes,
  case when not pg_is_in_recovery() then (select system_identifier::text from pg_control_system()) end as system,
  case
    when not pg_is_in_recovery() then ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::integer
  end as timeline

-- name: bare_role
-- The same where the control file is not to be read, as on some services: they take care themselves that one host writes.
select
  pg_is_in_recovery() or current_setting('transaction_read_only')::boolean as refuses_writes,
  null as system,
  null as timeline
