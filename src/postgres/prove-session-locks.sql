-- The statements of the truth test. They run before the schema is there, so they use nothing of it. Those that
-- run on a pool name each function with its schema, and no operator: the pool's search_path may begin with anybody's schema.

-- name: lock
select pg_try_advisory_lock($1::integer, $2::integer)

-- name: unlock
select pg_advisory_unlock($1::integer, $2::integer)

-- name: try_lock
-- For one statement only, so that it leaks nothing through any pooler.
select pg_catalog.pg_try_advisory_xact_lock($1::integer, $2::integer) as granted, pg_catalog.pg_backend_pid() as backend_pid

-- name: server_identity
-- Which database of which server this is.
select pg_catalog.concat_ws(' ', pg_catalog.pg_postmaster_start_time(), oid) as identity
from pg_catalog.pg_database
where datname operator(pg_catalog.=) pg_catalog.current_database()
