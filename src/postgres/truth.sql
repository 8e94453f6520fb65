-- The statements of the truth test. They run before the schema is there, so they use nothing of it. Those that
-- run on a pool name each function with its schema, and no operator: the pool's search_path may begin with anybody's schema.

-- name: claim
select pg_try_advisory_lock($1::integer, $2::integer)

-- name: unclaim
select pg_advisory_unlock($1::integer, $2::integer)

-- name: challenge
-- For one statement only, so that it leaks nothing through any pooler.
select pg_catalog.pg_try_advisory_xact_lock($1::integer, $2::integer) as let_in, pg_catalog.pg_backend_pid() as backend_pid

-- name: whereabouts
-- Which database of which server this is.
select pg_catalog.concat_ws(' ', pg_catalog.pg_postmaster_start_time(), oid) as place
from pg_catalog.pg_database
where datname operator(pg_catalog.=) pg_catalog.current_database()
