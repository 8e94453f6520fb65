-- The statements of the truth test. They run before the schema is there, so they use nothing of it.

-- name: claim
select pg_try_advisory_lock($1::integer, $2::integer)

-- name: unclaim
select pg_advisory_unlock($1::integer, $2::integer)

-- name: challenge
-- For one statement only, so that it leaks nothing through any pooler.
select pg_try_advisory_xact_lock($1::integer, $2::integer) as let_in, pg_backend_pid() as backend_pid

-- name: whereabouts
-- Which database of which server this is.
select concat_ws(' ', pg_postmaster_start_time(), (select oid from pg_database where datname = current_database())) as place
