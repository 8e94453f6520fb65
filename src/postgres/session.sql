-- What a session of Holdfast asks of its own connection.

-- name: identify
-- Who answers, and how many locks the server was made for. Nothing is set yet, because a pooler could pass it on to strangers: so
-- each function is named with its schema, and there is no operator.
select
  pg_catalog.pg_backend_pid() as backend_pid,
  pg_catalog.version() as version,
  pg_catalog.current_setting('server_version_num')::integer as version_number,
  pg_catalog.pg_is_in_recovery() as in_recovery,
  pg_catalog.current_setting('max_locks_per_transaction')::integer as locks_each,
  pg_catalog.current_setting('max_connections')::integer as connections,
  pg_catalog.current_setting('max_prepared_transactions')::integer as prepared

-- name: pin_path
-- Names nothing that could be looked up, so that what follows is looked up in pg_catalog alone.
set search_path = pg_catalog, pg_temp

-- name: no_jit
-- To compile a statement takes longer than to run any of these, however large the tables are.
set jit = off

-- name: apply_settings
-- Sets what the server has; an older one lacks some.
select count(set_config(name, value, false))
from unnest($1::text[], $2::text[]) as wanted (name, value)
join pg_settings using (name)

-- name: read_settings
-- What took effect, in the units of pg_settings. Settings of TCP stay 0 on a Unix socket.
select name, setting
from pg_settings
where name = any($1::text[])

-- name: claim_number
-- Draws a number and locks it: from now on PostgreSQL itself vouches for this session. The number may be another session's:
-- the sequence begins again after 2^31, and a restored dump sets it back. Also reads which generation and which sequence of
-- fences the session belongs to.
select
  number,
  pg_try_advisory_lock(holdfast.session_class(), number) as claimed,
  holdfast.generation_began() as generation_began,
  'holdfast.fence'::regclass::oid as fence_sequence
from (select nextval('holdfast.session')::integer as number offset 0) drawn

-- name: heartbeat
-- The heartbeat: shows the server that the client lives, and the client that it still speaks to the same session.
select pg_backend_pid()

-- name: heartbeat_with_generation
-- The heartbeat of a session that PostgreSQL vouches for: also shows whether the generation is still the same.
select pg_backend_pid(), holdfast.generation_began()

-- name: end_old_session
-- Ends the session of a past epoch. Its name tells it from a stranger who got the same process id.
select pg_terminate_backend(pid)
from pg_stat_activity
where pid = $1
  and application_name = $2
