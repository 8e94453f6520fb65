-- Statements that a session runs on its own connection.

-- name: identify
-- Identifies the backend and the capacity of its lock table. search_path is not set yet, because a pooler could pass settings on to other
-- clients. So the statement qualifies each function with its schema and uses no operators.
select
  pg_catalog.pg_backend_pid() as backend_pid,
  pg_catalog.version() as version,
  pg_catalog.current_setting('server_version_num')::integer as version_number,
  pg_catalog.pg_is_in_recovery() as in_recovery,
  pg_catalog.current_setting('max_locks_per_transaction')::integer as locks_each,
  pg_catalog.current_setting('max_connections')::integer as connections,
  pg_catalog.current_setting('max_prepared_transactions')::integer as prepared

-- name: pin_path
-- Sets search_path, so that all later statements resolve names only in pg_catalog. This statement itself contains no name that needs a
-- lookup.
set search_path = pg_catalog, pg_temp

-- name: no_jit
-- Turns off JIT, because compilation takes longer than any statement that a session runs.
set jit = off

-- name: apply_settings
-- Applies the settings that the server supports. Older servers lack some of them.
select count(set_config(name, value, false))
from unnest($1::text[], $2::text[]) as wanted (name, value)
join pg_settings using (name)

-- name: read_settings
-- Returns the effective values, in pg_settings's units. TCP settings stay 0 on a Unix socket.
select name, setting
from pg_settings
where name = any($1::text[])

-- name: claim_number
-- Allocates a session number and locks it. The lock proves that the session exists. Another session may already hold the number, because
-- the sequence cycles after 2^31 and a restored dump sets the sequence back. Also returns the start of the generation and the oid of the
-- sequence fence.
select
  number,
  pg_try_advisory_lock(holdfast.session_class(), number) as claimed,
  holdfast.generation_began() as generation_began,
  'holdfast.fence'::regclass::oid as fence_sequence
from (select nextval('holdfast.session')::integer as number offset 0) drawn

-- name: heartbeat
-- Proves to the server that the client is alive, and to the client that it still has the same session.
select pg_backend_pid()

-- name: heartbeat_with_generation
-- Heartbeat of a session that has a session number. Also returns the start of the generation, which reveals a change.
select pg_backend_pid(), holdfast.generation_began()

-- name: end_old_session
-- Ends an earlier epoch's session. Another process may have reused the process id, so the statement also checks the application_name.
select pg_terminate_backend(pid)
from pg_stat_activity
where pid = $1
  and application_name = $2
