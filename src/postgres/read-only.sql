-- name: read_only_reason
-- Runs after PostgreSQL has refused a write. Returns whether the server is a standby, and whether and where transactions are read-only by
-- default.
select
  pg_is_in_recovery() as is_standby,
  setting = 'on' as is_default,
  source,
  current_user::text as role,
  current_database()::text as database
from pg_settings
where name = 'default_transaction_read_only'
