-- What a session of Holdfast asks of its own connection.

-- name: identify
-- Who answers, and how many locks the server was made for.
select
  pg_backend_pid() as backend_pid,
  version() as version,
  current_setting('server_version_num')::integer as version_number,
  pg_is_in_recovery() as in_recovery,
  current_setting('max_locks_per_transaction')::integer
    * (current_setting('max_connections')::integer + current_setting('max_prepared_transactions')::integer) as lock_budget

-- name: arm
-- Sets what the server has; an older one lacks some.
select count(set_config(name, value, false))
from unnest($1::text[], $2::text[]) as wanted (name, value)
join pg_settings using (name)

-- name: armed
-- What took effect, in the units of pg_settings. Settings of TCP stay 0 on a Unix socket.
select name, setting
from pg_settings
where name = any($1::text[])

-- name: vouch
-- Draws a number and locks it: from now on PostgreSQL itself vouches for this session.
select number, pg_try_advisory_lock(holdfast.session_class(), number) as vouched
from (select nextval('holdfast.session')::integer as number offset 0) drawn

-- name: beat
-- The heartbeat: shows the server that the client lives, and the client that it still speaks to the same session.
select pg_backend_pid()

-- name: retire
-- Ends the session of a past life. Its name tells it from a stranger who got the same process id.
select pg_terminate_backend(pid)
from pg_stat_activity
where pid = $1
  and application_name = $2
