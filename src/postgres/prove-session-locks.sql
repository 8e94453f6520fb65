-- Statements that test whether session locks work. They run before the schema exists. Statements that run on a pool qualify each function
-- and operator with its schema, because the pool's search_path is unknown.

-- name: lock
select pg_try_advisory_lock($1::integer, $2::integer)

-- name: unlock
select pg_advisory_unlock($1::integer, $2::integer)

-- name: try_lock
-- Uses a transaction lock, so that a pooler cannot keep the lock.
select pg_catalog.pg_try_advisory_xact_lock($1::integer, $2::integer) as granted, pg_catalog.pg_backend_pid() as backend_pid

-- name: server_identity
-- Returns values that identify the database and the server.
select pg_catalog.concat_ws(' ', pg_catalog.pg_postmaster_start_time(), oid) as identity
from pg_catalog.pg_database
where datname operator(pg_catalog.=) pg_catalog.current_database()
